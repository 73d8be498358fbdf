"""What the next request sends: nothing is lost, nothing is sent twice, and it fits."""

import sys
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.context.history import for_model
from chat.context.plan import TARGET_SHARE, TRIGGER_SHARE, plan_request
from chat.context.session_history import span_of
from chat.context.strategy import STRATEGIES, strategy_of
from chat.context.tokens import estimate_messages
from sessions_app.calls import pair_calls
from sessions_app.messages import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

PROMPT = SystemMessage(content="Be brief.", message_id="s", timestamp="000")
LIMIT = 1000


def conversation(turns, *, size=200, tools=0, prompt=True):
    """Return a conversation of about ``size // 2`` tokens a turn, and more with tools."""
    messages = [PROMPT] if prompt else []
    for turn in range(turns):
        messages.append(
            UserMessage(content="x" * size, message_id=f"u{turn}", timestamp=when(turn))
        )
        if tools:
            calls = tuple(ToolCall(id=f"c{turn}.{n}", name="f", arguments={}) for n in range(tools))
            messages.append(reply(f"t{turn}", "", turn, tool_calls=calls))
            messages += [
                ToolMessage(
                    content="r" * size,
                    message_id=f"r{call.id}",
                    timestamp=when(turn),
                    tool_name="f",
                    tool_call_id=call.id,
                )
                for call in calls
            ]
        if turn < turns - 1:
            messages.append(reply(f"a{turn}", "y" * size, turn))
    return messages


def reply(message_id, content, turn, **how):
    return AssistantMessage(
        content=content, message_id=message_id, timestamp=when(turn), model="m", **how
    )


def when(turn):
    return f"{turn:03}"


def plan(messages, state=None, name="truncate_by_tokens", limit=LIMIT, now="999", **how):
    return plan_request(
        messages, state=state, strategy=strategy_of(name), limit=limit, model="m", now=now, **how
    )


def carried_out(messages, name="truncate_by_tokens", summary="They talked.", **how):
    """Plan, do what the plan asks for, and plan again."""
    first = plan(messages, name=name, **how)
    assert first.compaction
    state = first.compaction.state
    if first.compaction.summarize:
        state = msgspec.structs.replace(state, summary=summary, model="m")
    return state, plan(messages, state=state, name=name, **how)


def test_a_short_history_is_sent_whole():
    messages = conversation(3)

    planned = plan(messages)

    assert planned.messages == for_model(messages)
    assert planned.compaction is None
    assert planned.dropped == []
    assert planned.estimate.tokens == estimate_messages(messages)


def test_a_history_over_seven_tenths_is_cut_to_half_of_that():
    messages = conversation(20)

    planned = plan(messages)
    assert planned.estimate.tokens > planned.threshold == int(LIMIT * TRIGGER_SHARE)
    state, again = carried_out(messages)

    assert again.compaction is None
    assert again.estimate.tokens <= LIMIT * TARGET_SHARE
    assert again.messages[0] == PROMPT
    assert isinstance(again.messages[1], UserMessage)
    assert again.messages[-1] == messages[-1]
    assert [item.message_id for item in again.dropped] == [
        message.message_id for message in messages if message not in again.messages
    ]
    assert {item.reason for item in again.dropped} == {"truncated"}
    assert state.count == len(again.dropped)


def test_turns_after_a_cut_send_the_same_beginning_until_the_next_one():
    messages = conversation(20)
    state, before = carried_out(messages)

    longer = [*messages, reply("new", "y" * 200, 900), conversation(1, prompt=False)[0]]
    planned = plan(longer, state=state)

    assert planned.compaction is None
    assert list(planned.messages[: len(before.messages)]) == list(before.messages)


def test_a_second_cut_extends_the_first_and_tells_what_is_new():
    messages = conversation(20)
    state, _ = carried_out(messages, "summarize_history")
    longer = conversation(45)

    planned = plan(longer, state=state, name="summarize_history")

    compaction = planned.compaction
    assert compaction.previous == "They talked."
    assert compaction.state.first_id == state.first_id
    assert compaction.state.count > state.count
    covered_before = {m.message_id for m in longer[1 : 1 + state.count]}
    assert not covered_before & {m.message_id for m in compaction.messages}


@pytest.mark.parametrize(
    ("tools", "end"),
    [((), ""), (["expand_summary"], "\nThese messages can be read with expand_summary.")],
)
def test_a_summary_is_sent_in_the_place_of_what_it_tells_of(tools, end):
    tools = [ToolSpec(name=name, description="", parameters={}) for name in tools]
    _, planned = carried_out(conversation(20), "summarize_history", tools=tools)

    assert planned.messages[0].content.endswith(f"They talked.\n</summary>{end}")
    assert {item.reason for item in planned.dropped} == {"summarized"}


def test_the_models_own_prompt_is_counted_and_stands_before_a_summary():
    messages = conversation(9, prompt=False)
    prompt = "p" * 400
    with_it, without = plan(messages[:3], default_prompt=prompt), plan(messages[:3])
    assert with_it.estimate.tokens == without.estimate.tokens + 104
    assert with_it.sent[0].content == prompt
    assert list(with_it.sent[1:]) == list(with_it.messages) == messages[:3]
    own = plan([PROMPT, *messages[:3]], default_prompt=prompt)
    assert own.sent == own.messages

    _, after = carried_out(messages, "summarize_history", default_prompt=prompt)
    assert after.sent[0].content.startswith(f"{prompt}\n\n")
    assert "They talked." in after.sent[0].content
    assert [message.role for message in after.sent].count("system") == 1
    assert after.compaction is None


def test_a_filter_is_tried_before_anything_is_cut():
    messages = conversation(5, tools=3)
    assert plan(messages).compaction

    planned = plan(messages, name="filter_history+truncate_by_tokens")

    assert planned.compaction is None
    assert {item.reason for item in planned.dropped} == {"filtered"}
    assert {item.role for item in planned.dropped} == {"assistant", "tool"}


def test_counting_messages_leaves_out_more_where_they_are_long():
    short = conversation(100, size=0)
    _, planned = carried_out(short, "truncate_history", limit=1000)
    assert len(planned.messages) <= 40

    _, planned = carried_out(conversation(100, size=400), "truncate_history", limit=1000)
    assert planned.estimate.tokens <= 700


def test_nothing_is_left_out_where_nobody_wants_it_or_knows_the_limit():
    messages = conversation(50)

    assert plan(messages, name="none").compaction is None
    assert plan(messages, limit=None).compaction is None


def test_a_state_is_void_when_the_strategy_or_what_it_covers_changes():
    messages = conversation(20)
    state, _ = carried_out(messages)
    edited = list(messages)
    edited[2] = UserMessage(content="other", message_id=messages[2].message_id, timestamp="950")

    assert plan(messages, state=state).state == state
    assert plan(messages, state=state, name="summarize_history").state is None
    assert plan(edited, state=state).state is None
    assert plan(messages[:3], state=state).state is None
    assert plan([PROMPT, *messages[2:]], state=state).state is None


def test_what_was_counted_before_a_cut_says_nothing_about_what_is_sent_now():
    messages = conversation(20)
    counted = reply("last", "y", 899, prompt_eval_count=5000, eval_count=10)
    messages[-1:] = [counted, messages[-1]]
    state, planned = carried_out(messages)

    assert planned.estimate.counted == 0
    after = reply("after", "y", 999, prompt_eval_count=300, eval_count=10)
    later = [
        *messages,
        msg_at(after, "9991"),
        UserMessage(content="z", message_id="z", timestamp="9992"),
    ]
    assert plan(later, state=state).estimate.counted == 310


def msg_at(message, timestamp):
    return msgspec.structs.replace(message, timestamp=timestamp)


@pytest.mark.parametrize("lost", [True, False])
def test_a_turn_with_many_tool_rounds_leaves_out_its_first_rounds(lost):
    question = UserMessage(content="Do it.", message_id="q", timestamp="1")
    messages = [PROMPT, question]
    for number in range(20):
        call = ToolCall(id=f"c{number}", name="f", arguments={})
        messages.append(reply(f"t{number}", "", 1, tool_calls=(call,)))
        if not (lost and number == 3):
            messages.append(
                ToolMessage(
                    content="r" * 300,
                    message_id=f"r{number}",
                    timestamp="1",
                    tool_name="f",
                    tool_call_id=call.id,
                )
            )

    _, planned = carried_out(messages)

    assert list(planned.messages[:2]) == [PROMPT, question]
    assert planned.messages[-1] == messages[-1]
    assert planned.estimate.tokens <= LIMIT * TARGET_SHARE + 100
    assert tuple(pair_calls(planned.messages)) == tuple(planned.messages)


def test_thinking_that_was_signed_before_the_running_round_was_cut_is_not_sent():
    signed = {"provider_state": {"thinking": [{"signature": "c2ln"}]}}
    messages = conversation(6, size=400)
    for number in range(3):
        call = ToolCall(id=f"c{number}", name="f", arguments={}, extra=signed)
        messages.append(reply(f"t{number}", "", 6 + number, tool_calls=(call,)))
        messages.append(msg_at(result_of(call), when(6 + number)))
    state = plan(messages[:-2], now=when(7)).compaction.state

    planned = plan(messages, state=state, limit=LIMIT * 10)

    answers = [it for it in planned.messages if isinstance(it, AssistantMessage)]
    calls = [call for answer in answers for call in answer.tool_calls]
    assert [(call.id, bool(call.extra)) for call in calls] == [
        ("c0", False),
        ("c1", False),
        ("c2", True),
    ]
    whole = plan(messages, limit=LIMIT * 10).messages
    assert all(call.extra for it in whole[-6::2] for call in it.tool_calls)


def result_of(call):
    return ToolMessage(
        content="r", message_id=f"r{call.id}", timestamp="", tool_name="f", tool_call_id=call.id
    )


@given(
    turns=st.integers(1, 40),
    size=st.integers(0, 600),
    tools=st.integers(0, 3),
    prompt=st.booleans(),
    name=st.sampled_from(sorted(STRATEGIES)),
    limit=st.integers(1, 4000),
)
def test_every_message_is_sent_or_named_as_left_out_and_cutting_ends(
    turns, size, tools, prompt, name, limit
):
    messages = conversation(turns, size=size, tools=tools, prompt=prompt)
    state = None
    for _ in range(4):
        planned = plan(messages, state=state, name=name, limit=limit)
        sent = {message.message_id for message in planned.messages}
        gone = {item.message_id for item in planned.dropped}
        assert sent - {""} | gone == {message.message_id for message in messages}
        assert not (sent & gone)
        assert messages[-1] in planned.messages
        assert tuple(pair_calls(planned.messages)) == tuple(planned.messages)
        if planned.compaction is None:
            break
        state = planned.compaction.state
        assert span_of(messages, state, strategy_of(name)) is not None
    assert planned.compaction is None


def test_planning_a_long_request_costs_a_few_calls_a_message():
    messages = conversation(500)
    calls = Counter()
    sys.setprofile(lambda _frame, event, _argument: calls.update([event]))
    try:
        planned = plan(messages, limit=10**6)
    finally:
        sys.setprofile(None)
    assert len(planned.messages) == len(messages) == 1000
    assert calls["call"] + calls["c_call"] < 10 * len(messages), calls


# Hidden messages


def hide(messages, *places):
    return [
        msgspec.structs.replace(message, hidden=True) if at in places else message
        for at, message in enumerate(messages)
    ]


def test_hidden_messages_are_not_sent_and_named_as_left_out():
    messages = conversation(3, tools=2)
    planned = plan(hide(messages, 2, 3, 4), limit=10**6)
    assert [message.message_id for message in planned.messages] == [
        *("s", "u0", "a0", "u1", "t1", "rc1.0", "rc1.1", "a1", "u2", "t2", "rc2.0", "rc2.1")
    ]
    assert [(item.message_id, item.reason) for item in planned.dropped] == [
        *(("t0", "hidden"), ("rc0.0", "hidden"), ("rc0.1", "hidden"))
    ]
    whole = plan(messages, limit=10**6)
    assert planned.estimate.tokens < whole.estimate.tokens


def test_what_was_cut_off_before_a_message_in_it_was_hidden_is_cut_anew():
    messages = conversation(12)
    state, planned = carried_out(messages)
    assert planned.dropped[0].reason == "truncated"
    gone = next(at for at, m in enumerate(messages) if m.message_id == state.first_id)
    assert plan(hide(messages, gone), state=state).state is None
    last = len(messages) - 2
    planned = plan(hide(messages, last), state=state)
    assert planned.state == state
    assert {item.reason for item in planned.dropped} == {"truncated", "hidden"}


def test_what_was_counted_before_messages_were_hidden_is_no_count_any_more():
    messages = conversation(4, size=2000)
    messages = [
        msgspec.structs.replace(message, prompt_eval_count=1000 * (at + 1), eval_count=10)
        if isinstance(message, AssistantMessage)
        else message
        for at, message in enumerate(messages)
    ]
    assert plan(messages, limit=10**6).estimate.counted
    planned = plan(hide(messages, 1), limit=10**6, changed_at=when(3))
    assert planned.estimate.counted == 0
    assert planned.estimate.tokens == estimate_messages(planned.messages)
    assert plan(hide(messages, 1), limit=10**6, changed_at=when(1)).estimate.counted
