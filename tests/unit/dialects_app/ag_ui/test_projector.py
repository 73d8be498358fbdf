"""A turn's events as those of a run, by the rules of AG-UI's own client and models."""

import json

import pytest
from ag_ui.core import TokenUsage
from hypothesis import given
from hypothesis import strategies as st

from chat.stream.agent_events import (
    AgentComplete,
    AgentExecution,
    AgentPlanning,
    AgentStarted,
)
from chat.stream.events import (
    ContentDelta,
    ContentReset,
    Done,
    Failed,
    StatusChanged,
    ThinkingContentDelta,
    ToolCallDelta,
    ToolContinuationStarted,
)
from dialects_app.ag_ui.calls import ResumedCalls
from dialects_app.ag_ui.projector import RunProjector
from models_app.call_arguments import INVALID_JSON
from sessions_app.messages import ToolCall
from tests.unit.dialects_app.ag_ui.runs import (
    EXPIRES,
    RUN,
    THREAD,
    USAGE,
    agent_called,
    agent_returned,
    asked,
    cancelled,
    complete,
    done,
    failed,
    going_on,
    kinds,
    of_agent,
    of_kind,
    projected,
    started,
    texts_of,
    turns,
    verify,
)
from tests.unit.dialects_app.turns import (
    SESSION_ID,
    TURN_ID,
    called,
    handed_over,
    numbered,
    returned,
    said,
    thought,
)


@given(turns())
def test_every_stream_keeps_the_rules_of_the_client(turn):
    verify(projected(turn))


@given(turns())
def test_the_texts_are_those_of_the_session(turn):
    rounds = [[]]
    for event in turn:
        if isinstance(event, ToolContinuationStarted):
            rounds.append([])
        elif isinstance(event, ContentDelta):
            rounds[-1].append(event.content)
    texts = texts_of([e for e in projected(turn) if "subagentRunId" not in e])
    for number, pieces in enumerate(rounds):
        assert texts.get(f"m{number}", "").strip() == "".join(pieces).strip()


@given(turns())
def test_no_reasoning_is_lost(turn):
    wanted = "".join(event.content for event in turn if isinstance(event, ThinkingContentDelta))
    assert "".join(texts_of(projected(turn), "REASONING_MESSAGE_CONTENT").values()) == wanted


@given(turns(), st.data())
def test_it_does_not_matter_how_events_arrive(turn, data):
    events = numbered(turn)
    whole = RunProjector(THREAD, RUN).feed(events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    projector = RunProjector(THREAD, RUN)
    pieces = [
        projector.feed(events[begin:end])
        for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True)
    ]
    assert b"".join(pieces) == whole


def test_a_plain_answer():
    events = projected([started(), *thought("Hm"), *said("Hel", "lo"), *complete("Hello")])
    assert kinds(events) == [
        "RUN_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert events[0] == {
        "type": "RUN_STARTED",
        "threadId": THREAD,
        "runId": RUN,
        "protocolVersion": "1.0",
        "metadata": {"sessionId": SESSION_ID, "turnId": TURN_ID, "model": "small:1b"},
    }
    assert events[-1] == {
        "type": "RUN_FINISHED",
        "threadId": THREAD,
        "runId": RUN,
        "outcome": {"type": "success"},
        "usage": [
            {
                "model": "small:1b",
                "inputTokens": 12,
                "outputTokens": 30,
                "reasoningTokens": 7,
                "cachedInputTokens": 4,
                "totalTokens": 42,
            }
        ],
        "metadata": {"messageId": "m0", "doneReason": "stop", "costUsd": "0.0058"},
    }
    assert events[-1]["usage"][0].keys() <= {
        each.alias for each in TokenUsage.model_fields.values()
    }


def test_a_run_that_failed_or_waits_says_what_it_cost():
    error = Failed(code="NETWORK_ERROR", message="It broke.", details={}, turn_usage=USAGE)
    waits = [asked("c1"), Done(session_id=SESSION_ID, turn_usage=USAGE)]
    for turn in ([error, done()], waits):
        assert projected([started(), *turn])[-1]["metadata"] == {"costUsd": "0.0058"}


def test_who_did_not_begin_a_run_knows_it_by_the_turn():
    stream = RunProjector(THREAD).feed(numbered([started(), *complete()]))
    assert stream.count(f'"runId":"{TURN_ID}"'.encode()) == 2


def test_an_answer_without_a_word_has_its_message():
    events = projected([started(), *thought("Hm"), *cancelled()])
    assert kinds(events)[-3:] == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert events[-1]["outcome"] == {"type": "cancelled"}
    assert events[-1]["metadata"] == {"messageId": "m0"}


def test_calls_belong_to_the_message_that_asks_for_them():
    turn = [started(), *said("I add."), called("c1", a=1, b=2), returned("c1"), going_on()]
    events = projected([*turn, *said("3"), *complete("3", message_id="m1")])
    [start], [arguments] = of_kind(events, "TOOL_CALL_START"), of_kind(events, "TOOL_CALL_ARGS")
    [result] = of_kind(events, "TOOL_CALL_RESULT")
    assert (start["toolCallName"], start["parentMessageId"]) == ("add", "m0")
    assert json.loads(arguments["delta"]) == {"a": 1, "b": 2}
    assert (result["messageId"], result["content"], result["role"]) == ("result-c1", "3", "tool")
    assert texts_of(events) == {"m0": "I add.", "m1": "3"}


def test_arguments_come_as_the_model_writes_them():
    about = {"call_index": 0, "tool_call_id": "c1"}
    pieces = [
        ToolCallDelta(**about, arguments='{"a":', tool_name="add"),
        ToolCallDelta(**about, arguments="1}"),
    ]
    events = projected([started(), *pieces, called("c1", a=1), returned("c1"), *complete()])
    calls = [event for event in events if event["type"].startswith("TOOL_CALL")]
    assert kinds(calls) == [
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
    ]
    assert (calls[0]["toolCallName"], calls[0]["parentMessageId"]) == ("add", "m0")
    assert calls[1]["delta"] + calls[2]["delta"] == '{"a":1}'


@pytest.mark.parametrize("ending", [failed(), cancelled()], ids=["error", "cancelled"])
def test_a_call_that_broke_off_ends_before_the_run(ending):
    piece = ToolCallDelta(call_index=0, tool_call_id="c1", arguments='{"a":', tool_name="add")
    events = projected([started(), piece, *ending])
    assert kinds(events)[-2] in {"TOOL_CALL_END", "TEXT_MESSAGE_END"}
    assert kinds(events).count("TOOL_CALL_END") == 1
    verify(events)


def test_the_call_of_an_agent_is_shown_whole():
    piece = ToolCallDelta(call_index=0, tool_call_id="c1", arguments="{", tool_name="agent")
    assert "TOOL_CALL_START" not in kinds(projected([started(), piece, *failed()]))


def test_a_failed_call_says_what_its_model_is_told():
    events = projected([started(), called("c1"), returned("c1", None), *failed()])
    [result] = of_kind(events, "TOOL_CALL_RESULT")
    assert (result["content"], result["metadata"]["success"]) == ("Error: It broke.", False)
    assert events[-1] == {
        "type": "RUN_ERROR",
        "message": "It broke off.",
        "code": "NETWORK_ERROR",
    }


def test_arguments_that_are_no_json_are_shown_as_the_model_wrote_them():
    call = handed_over("c1", **{INVALID_JSON: '{"a":'})
    events = projected([started(), call, *complete()])
    assert of_kind(events, "TOOL_CALL_ARGS")[0]["delta"] == '{"a":'


def test_calls_of_the_client_are_left_to_it():
    turn = [started(), called("c1"), returned("c1"), handed_over("c2", city="Paris")]
    events = projected([*turn, *complete(done_reason="tool_calls")])
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["c2"]}


def test_questions_end_the_run_as_interrupts():
    events = projected([started(), *said("May I?"), asked("c1"), done()])
    [start] = of_kind(events, "TOOL_CALL_START")
    assert (start["toolCallId"], start["parentMessageId"]) == ("c1", "m0")
    [interrupt] = events[-1]["outcome"]["interrupts"]
    assert interrupt.pop("responseSchema")["required"] == ["approved"]
    assert interrupt == {
        "id": "conf_a",
        "reason": "tool_call",
        "toolCallId": "c1",
        "message": "May the tool remove run?",
        "expiresAt": EXPIRES,
        "metadata": {"toolName": "remove", "arguments": {"path": "x"}},
    }


def test_a_question_that_was_answered_in_the_turn_is_no_interrupt():
    turn = [started(), asked("c1"), asked("c2", "conf_b"), returned("c1"), done()]
    [interrupt] = projected(turn)[-1]["outcome"]["interrupts"]
    assert interrupt["id"] == "conf_b"
    [shown, _] = of_kind(projected(turn), "CUSTOM")
    assert (shown["name"], shown["value"]["id"]) == ("interrupt", "conf_a")


def test_a_call_that_the_client_has_is_not_shown_again_when_it_is_resumed():
    call = ToolCall(id="c1", name="remove", arguments={"path": "x"})
    turn = [started("m1"), returned("c1"), *complete(message_id="m1")]
    resumed = ResumedCalls(asking_id="m0", calls={"c1": call}, known=frozenset({"c1"}))
    events = projected(turn, resumed=resumed)
    assert kinds(events)[:2] == ["RUN_STARTED", "TOOL_CALL_RESULT"]
    unknown = projected(turn, resumed=ResumedCalls(asking_id="m0", calls={"c1": call}))
    [start], [arguments] = of_kind(unknown, "TOOL_CALL_START"), of_kind(unknown, "TOOL_CALL_ARGS")
    assert (start["toolCallName"], start["parentMessageId"]) == ("remove", "m0")
    assert json.loads(arguments["delta"]) == {"path": "x"}


def test_an_agent_is_a_call_with_a_run_of_its_own():
    who = of_agent("c1")
    turn = [
        started(),
        AgentStarted(**who, instruction="Go"),
        AgentPlanning(**who, content="I will "),
        AgentPlanning(**who, content="add."),
        AgentExecution(**who, content="Adding."),
        agent_called("c1", "c1", a=1),
        agent_returned("c1", "c1"),
        AgentExecution(**who, content="Done."),
        AgentComplete(**who, session_id="9876543210", output="It is 3."),
        going_on(),
        *said("3"),
        *complete("3", message_id="m1"),
    ]
    events = projected(turn)
    verify(events)
    inside = [event for event in events if event.get("subagentRunId") == "c1"]
    assert kinds(inside) == [
        "SUBAGENT_STARTED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "SUBAGENT_FINISHED",
    ]
    assert (inside[0]["name"], inside[0]["parentToolCallId"]) == ("clerk", "c1")
    assert [event["stepName"] for event in of_kind(inside, "STEP_STARTED")] == [
        "planning",
        "execution",
    ]
    *_, result = of_kind(events, "TOOL_CALL_RESULT")
    assert (result["toolCallId"], result["content"]) == ("c1", "It is 3.")


def test_an_agent_that_asks_is_suspended_with_its_question():
    question = asked("c1", agent_name="clerk", inner_tool_call_id="i1")
    turn = [started(), AgentStarted(**of_agent("c1"), instruction="Go"), question, done()]
    events = projected(turn)
    verify(events)
    [ended] = of_kind(events, "SUBAGENT_FINISHED")
    assert ended["outcome"] == {"type": "suspended", "interruptIds": ["conf_a"]}
    [interrupt] = events[-1]["outcome"]["interrupts"]
    assert (interrupt["toolCallId"], interrupt["subagentRunId"]) == ("c1:i1", "c1")


@pytest.mark.parametrize("ending", [cancelled(), failed()])
def test_an_agent_does_not_outlive_the_run(ending):
    begun = AgentStarted(**of_agent("c1"), instruction="Go")
    events = projected([started(), begun, AgentPlanning(**of_agent("c1"), content="P"), *ending])
    verify(events)
    assert len(of_kind(events, "SUBAGENT_ERROR")) == 1


def test_statuses_are_shown_as_they_are():
    events = projected([started(), StatusChanged(state="loading_model"), *complete()])
    [status] = of_kind(events, "CUSTOM")
    assert (status["name"], status["value"]) == ("status", {"state": "loading_model"})


def test_a_text_that_is_void_ends_and_the_next_one_begins_anew():
    reset = ContentReset(message_id="m0")
    run = projected([started(), *said("seven"), reset, *said("7"), *complete("7")])
    texts = [kind for kind in kinds(run) if kind.startswith("TEXT_MESSAGE")]
    assert texts == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"] * 2
    verify(run)
