"""Tool calls of a history, and the results that answer them."""

from sessions_app.calls import open_calls, pair_calls, results_of
from sessions_app.messages import (
    INTERRUPTED_RESULT,
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)

LATER = "2026-11-21T11:00:00.000000+00:00"


def user(text: str) -> UserMessage:
    return UserMessage(content=text, message_id="u", timestamp=LATER)


def calls(*ids: str, name: str = "add") -> AssistantMessage:
    return AssistantMessage(
        content="",
        message_id="a",
        timestamp=LATER,
        tool_calls=tuple(ToolCall(id=id_, name=name, arguments={}) for id_ in ids),
    )


def result(text: str, call_id: str | None = None, name: str = "add") -> ToolMessage:
    return ToolMessage(
        content=text, message_id="t", timestamp=LATER, tool_name=name, tool_call_id=call_id
    )


def contents(messages: tuple[Message, ...]) -> list[str]:
    return [message.content for message in messages]


def test_every_call_is_followed_by_its_result_in_order() -> None:
    paired = pair_calls([user("?"), calls("1", "2"), result("two", "2"), result("one", "1")])
    assert contents(paired) == ["?", "", "one", "two"]


def test_an_orphan_call_gets_a_result_that_says_so() -> None:
    paired = pair_calls([calls("1", "2"), result("one", "1"), user("Hello?")])
    assert contents(paired) == ["", "one", INTERRUPTED_RESULT, "Hello?"]
    synthesised = paired[2]
    assert isinstance(synthesised, ToolMessage)
    assert (synthesised.tool_call_id, synthesised.tool_name) == ("2", "add")


def test_results_of_older_files_are_matched_by_name_and_order() -> None:
    message = AssistantMessage(
        content="",
        message_id="a",
        timestamp=LATER,
        tool_calls=(
            ToolCall(id="1", name="add", arguments={}),
            ToolCall(id="2", name="flip", arguments={}),
            ToolCall(id="3", name="add", arguments={}),
        ),
    )
    paired = pair_calls([message, result("first"), result("heads", name="flip"), result("second")])
    assert contents(paired) == ["", "first", "heads", "second"]
    assert [getattr(item, "tool_call_id", None) for item in paired[1:]] == ["1", "2", "3"]


def test_a_result_that_nobody_asked_for_is_left_out() -> None:
    paired = pair_calls([result("stray"), calls("1"), result("one", "1"), result("again", "1")])
    assert contents(paired) == ["", "one"]


def test_calls_stay_open_until_they_are_answered() -> None:
    assert [call.id for call in open_calls([calls("1", "2"), result("one", "1")])] == ["2"]
    assert open_calls([calls("1"), result("one", "1")]) == ()
    assert open_calls([calls("1"), user("never mind")]) == ()
    assert open_calls([]) == ()


def test_the_results_of_an_answer_stand_in_the_order_of_its_calls() -> None:
    messages = [user("?"), calls("1", "2", "3"), result("three", "3"), result("one", "1")]
    found = results_of(messages, 1)
    assert [each and each.content for each in found] == ["one", None, "three"]
    assert results_of(messages, 0) == ()
