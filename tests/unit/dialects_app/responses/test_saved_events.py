"""A saved answer gives the events of its stream, and so the same items."""

import pytest
from hypothesis import given

from chat.stream.events import (
    Cancelled,
    ClientToolCall,
    ContentDelta,
    Failed,
    MessageComplete,
    ThinkingContentDelta,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolContinuationStarted,
    ToolResultReceived,
)
from dialects_app.responses.saved_events import answer_events, ending_event
from dialects_app.responses.saved_items import items_of
from sessions_app.messages import AssistantMessage, Message, ToolCall, ToolMessage, mark_cancelled
from tests.unit.dialects_app.responses.parsed_messages import SESSION, ids
from tests.unit.dialects_app.responses.test_saved_items import histories

OURS, ASKED, THEIRS = (
    ToolCall(id=name, name="f", arguments={}, client_side=name == "c3")
    for name in ("c1", "c2", "c3")
)
RESULT = ToolMessage(content="ok", tool_call_id="c1", tool_name="f", **ids())


def test_an_answer_gives_its_texts_then_its_questions_then_its_calls():
    answer = AssistantMessage(
        content="May I?", thinking="Hm", tool_calls=(THEIRS, OURS, ASKED), **ids()
    )
    events = answer_events(answer, [None, RESULT, None], {"c2": "conf_a"})
    assert [type(event) for event in events] == [
        ToolContinuationStarted,
        ThinkingContentDelta,
        ContentDelta,
        ToolConfirmationRequired,
        ToolResultReceived,
        ClientToolCall,
    ]


def test_a_call_without_a_result_was_only_started():
    answer = AssistantMessage(content="", tool_calls=(OURS,), **ids())
    events = list(answer_events(answer, [None], {}))
    assert [type(event) for event in events] == [ToolContinuationStarted, ToolCallStarted]


def test_a_question_that_was_answered_is_repeated_where_it_is_wanted():
    answer = AssistantMessage(content="", tool_calls=(OURS,), **ids())
    result = ToolMessage(content="ok", tool_call_id="c1", confirmation_id="conf_a", **ids())
    for wanted in (True, False):
        events = list(answer_events(answer, [result], {}, with_answered=wanted))
        assert any(isinstance(event, ToolConfirmationRequired) for event in events) is wanted


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (AssistantMessage(content="Hi", **ids()), MessageComplete),
        (AssistantMessage(content="Hi", interrupted=True, **ids()), Failed),
        (AssistantMessage(content=mark_cancelled("Hi"), cancelled=True, **ids()), Cancelled),
        (None, Failed),
    ],
)
def test_a_turn_ends_as_its_last_answer_says(answer, kind):
    assert isinstance(ending_event(answer), kind)


def test_an_error_ends_a_turn_with_its_code():
    answer = AssistantMessage(content="Hi", **ids())
    ending = ending_event(answer, error_code="RATE_LIMITED", error_message="Slow down.")
    assert isinstance(ending, Failed)
    assert (ending.code, ending.message) == ("RATE_LIMITED", "Slow down.")


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_what_was_cut_off_is_incomplete_in_a_conversation_too(reason):
    answer = AssistantMessage(content="Hi", done_reason=reason, **ids())
    [item] = items_of([answer], SESSION)
    assert item["status"] == "incomplete"


@given(histories)
def test_saved_texts_are_kept_as_they_are(messages: list[Message]) -> None:
    shown = [
        item["content"][0]["text"]
        for item in items_of(messages, SESSION)
        if item["type"] == "message" and item["role"] == "assistant"
    ]
    assert shown == [each.content for each in messages if isinstance(each, AssistantMessage)]
