"""How a chat request continues a conversation, and what of it a model is sent."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.context.history import continue_from, continue_with, for_model
from chat.errors import MissingToolResult
from sessions_app.calls import open_calls
from sessions_app.errors import ValidationFailed
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

CALL = ToolCall(id="c1", name="add", arguments={})
OTHER = ToolCall(id="c2", name="add", arguments={})


def user(content="Hello"):
    return UserMessage(content=content, message_id="u", timestamp="t")


def answer(content="Hi", **how):
    return AssistantMessage(content=content, message_id="a", timestamp="t", model="m", **how)


def result(call_id="c1"):
    return ToolMessage(
        content="3", message_id="r", timestamp="t", tool_name="add", tool_call_id=call_id
    )


def test_a_message_is_appended():
    continuation = continue_from([user(), answer()], "And now?")
    assert (continuation.keep, continuation.append) == (2, True)


def test_the_same_images_again_are_a_retry_and_others_are_not():
    def showing(*names, digest="ab"):
        files = [
            Attachment(id=f"sha256:{digest}", name=name, media_type="image/png", size=1)
            for name in names
        ]
        return msgspec.structs.replace(user(), attachments=tuple(files))

    history = [showing("cat.png")]
    assert continue_with(history, [showing("image.png")]).said == ()  # a name may be lost
    for other in (showing("cat.png", digest="cd"), showing("a", "b"), user()):
        assert continue_with(history, [other]).said == (other,)


def test_the_same_message_again_without_an_answer_is_a_retry():
    continuation = continue_from([user("Same")], "Same")
    assert (continuation.keep, continuation.append) == (1, False)
    assert continue_from([user("Same"), answer()], "Same").append
    assert continue_from([user("Other")], "Same").append


def test_without_a_message_the_last_answer_is_replaced_however_it_ended():
    for last in (answer(), answer(cancelled=True), answer(interrupted=True)):
        continuation = continue_from([user(), last], None)
        assert (continuation.keep, continuation.append) == (1, False)


def test_an_unanswered_message_is_answered():
    assert continue_from([user(), answer(), user()], None).keep == 3


def test_open_calls_come_first_and_answered_ones_do_not():
    asked = answer(tool_calls=(CALL, OTHER))
    assert continue_from([user(), asked], None).open_calls == (CALL, OTHER)
    assert continue_from([user(), asked, result("c1")], None).open_calls == (OTHER,)
    done = continue_from([user(), asked, result("c1"), result("c2")], None)
    assert (done.keep, done.open_calls) == (4, ())


def test_there_is_nothing_to_continue_without_a_user_message():
    assert continue_from([], None) is None
    assert continue_from([SystemMessage(content="x", message_id="s", timestamp="t")], None) is None


def test_a_model_never_sees_the_marker_or_empty_broken_answers():
    sent = for_model(
        [
            user(),
            answer("Half\n\n[cancelled]", cancelled=True),
            user(),
            answer("[cancelled]", cancelled=True),
            user(),
            answer("", interrupted=True),
            answer("Says [cancelled]"),
        ]
    )
    assert [message.content for message in sent] == [
        *("Hello", "Half", "Hello", "Hello", "Says [cancelled]")
    ]


MESSAGES = st.lists(
    st.sampled_from(
        [
            user(),
            answer(),
            answer(tool_calls=(CALL,)),
            answer(tool_calls=(CALL, OTHER)),
            result("c1"),
            result("c2"),
            answer("x\n\n[cancelled]", cancelled=True),
            answer("", interrupted=True),
        ]
    ),
    max_size=12,
)


@given(MESSAGES)
def test_whatever_the_history_every_call_that_is_sent_has_one_result(messages):
    sent = for_model(messages)
    for index, message in enumerate(sent):
        if isinstance(message, AssistantMessage) and message.tool_calls:
            results = sent[index + 1 : index + 1 + len(message.tool_calls)]
            assert [each.tool_call_id for each in results] == [
                call.id for call in message.tool_calls
            ]
    calls = sum(len(m.tool_calls) for m in sent if isinstance(m, AssistantMessage))
    assert calls == sum(isinstance(m, ToolMessage) for m in sent)


@given(MESSAGES, st.none() | st.just("Hello") | st.just("New"))
def test_a_continuation_never_cuts_a_persons_message_off(messages, message):
    continuation = continue_from(messages, message)
    if continuation is None:
        assert not any(isinstance(each, UserMessage) for each in messages)
    else:
        cut = messages[continuation.keep :]
        assert not any(isinstance(each, UserMessage) for each in cut)


def test_a_plain_history_is_sent_as_it_is_to_those_who_may_add_to_it():
    history = (user(), answer(), user())
    sent = for_model(history)
    assert sent == list(history)
    sent.append(answer())
    assert len(history) == 3


MINE = ToolCall(id="m1", name="weather", arguments={}, client_side=True)
MIXED = (user(), answer("", tool_calls=(MINE, CALL)))


def test_results_that_were_said_before_are_not_said_again_whatever_came_after_them():
    open_still = continue_with([*MIXED, result("m1")], [result("m1")])
    assert (open_still.said, open_still.open_calls) == ((), (CALL,))
    all_there = continue_with([*MIXED, result("m1"), result("c1")], [result("m1")])
    assert (all_there.keep, all_there.said, all_there.open_calls) == (4, (), ())


def test_calls_of_the_server_run_once_the_client_has_answered_for_its_own():
    continuation = continue_with(MIXED, [result("m1")])
    assert [message.tool_name for message in continuation.said] == ["weather"]
    assert (continuation.open_calls, continuation.asking_id) == ((CALL,), "a")


@pytest.mark.parametrize(
    ("said", "words"),
    [([result("c1")], "waits for a result"), ([result("m1"), result("c1")], "waits for a result")],
)
def test_nobody_but_the_server_answers_for_its_tools(said, words):
    with pytest.raises(ValidationFailed, match=words):
        continue_with(MIXED, said)


def test_a_call_has_one_result():
    other = msgspec.structs.replace(result("m1"), content="4")
    with pytest.raises(ValidationFailed, match="another result"):
        continue_with([*MIXED, result("m1")], [other])


def test_calls_of_a_client_that_brings_its_tools_are_waited_for_and_else_given_up():
    with pytest.raises(MissingToolResult):
        continue_from(MIXED, None, client_tools=["weather"])
    continuation = continue_from(MIXED, None)
    assert (continuation.given_up, continuation.open_calls) == ((MINE,), (CALL,))


@given(MESSAGES, MESSAGES.filter(bool))
def test_whatever_a_request_brings_every_call_of_it_has_a_result_or_it_is_refused(history, said):
    try:
        continuation = continue_with(history, said)
    except (MissingToolResult, ValidationFailed):
        return
    whole = [*history, *continuation.said]
    assert len(continuation.said) <= len(said)
    left = {call.id for call in open_calls(whole)}
    assert left == {call.id for call in continuation.open_calls}
    assert left <= {call.id for call in open_calls(history)}


def hidden(message):
    return msgspec.structs.replace(message, hidden=True)


def test_what_is_hidden_is_neither_a_retry_nor_continued():
    assert continue_from([hidden(user("Hello"))], "Hello").append
    assert continue_from([user(), answer(), hidden(user("And now?"))], None) is None
    asking = hidden(answer(tool_calls=(CALL, OTHER)))
    continuation = continue_from([user(), asking, hidden(result())], None)
    assert (continuation.open_calls, continuation.replaced_id) == ((), "a")
