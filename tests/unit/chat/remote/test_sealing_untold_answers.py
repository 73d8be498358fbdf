"""What is told of turns whose sessions have more of them than their journals."""

from collections.abc import Sequence
from typing import Any

import msgspec

from chat.remote.replay import replay
from chat.remote.sealing import closing_lines, missing_entries
from chat.storage.journal import line
from chat.stream.encoding import ascii_json, encode_event
from chat.stream.events import ContentDelta, ToolContinuationStarted, TurnStarted
from sessions_app.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sessions_app.session import Session, SessionMetadata, append_messages
from tests.unit.chat.remote.test_sealing import NOW, SESSION_ID, TURN_ID, entries_of


def answer(message_id: str, text: str) -> AssistantMessage:
    return AssistantMessage(
        content=text, message_id=message_id, timestamp=NOW, model="m", done_reason="stop"
    )


def session_with(*said: Message) -> Session:
    """Return a session in which a user asked, and this was said in the turn."""
    metadata = SessionMetadata(session_id=SESSION_ID, model="m", created_at=NOW, updated_at=NOW)
    asked = UserMessage(content="?", message_id="question", timestamp=NOW)
    said = tuple(msgspec.structs.replace(each, turn_id=TURN_ID) for each in said)
    return append_messages(Session(metadata=metadata), asked, *said, now=NOW)


def missing(session: Session, *events: Any) -> list[tuple[str, Any]]:
    """Return the events that are added to a journal of these."""
    turn = replay(entries_of(lines_of_events(*events)))
    added = [entry for entry in missing_entries(session, turn, TURN_ID) if entry.n]
    numbers = [entry.n for entry in added]
    assert numbers == list(range(len(events) + 1, len(events) + len(added) + 1))
    return [(entry.event, entry.value()) for entry in added]


def lines_of(events: Sequence[Any]) -> str:
    return "".join(line(n, each.event, encode_event(each)) for n, each in enumerate(events, 1))


def lines_of_events(*events: Any) -> str:
    return line(0, "round", ascii_json({"message_id": "round0"})) + lines_of(events)


STARTED = TurnStarted(turn_id=TURN_ID, session_id=SESSION_ID, model="m")


def test_of_a_turn_without_events_and_without_an_answer_there_is_nothing_to_tell():
    assert missing(session_with()) == []


def test_a_part_of_an_answer_that_was_saved_is_told_with_its_thinking():
    part = msgspec.structs.replace(
        answer("final", "Half"), thinking="Hm.", interrupted=True, done_reason=None
    )
    session = session_with(part)

    told = missing(session)

    assert [name for name, _ in told] == ["turn_started", "thinking_delta", "content_delta"]
    started = told[0][1]
    assert (started["user_message_id"], started["user_message_index"]) == ("question", 0)
    assert (told[1][1]["content"], told[2][1]["content"]) == ("Hm.", "Half")
    turn = replay(missing_entries(session, replay(()), TURN_ID))
    ending = entries_of(closing_lines(session, turn, TURN_ID))[0]
    assert (ending.event, ending.value()["code"]) == ("error", "TURN_INTERRUPTED")


def test_an_answer_that_is_a_variant_is_told_too():
    whole = answer("old", "Whole")
    part = msgspec.structs.replace(answer("new", "Half"), turn_id=TURN_ID)
    with_part = msgspec.structs.replace(whole, variants=((part,),))
    session = append_messages(session_with(), with_part, now=NOW)

    [(_, started), (_, delta)] = missing(session)

    assert (started["message_id"], started["user_message_id"]) == ("new", "question")
    assert delta["content"] == "Half"


def test_the_answer_after_calls_is_told_if_what_was_said_before_them_was():
    call = ToolCall(id="c1", name="t", arguments={})
    asked = msgspec.structs.replace(answer("round0", "Let me."), tool_calls=(call,))
    session = session_with(asked, answer("final", "Done."))
    whole, half = ContentDelta(content="Let me."), ContentDelta(content="Let")
    goes_on = ToolContinuationStarted(message_id="final")

    assert [name for name, _ in missing(session, STARTED, whole)] == [
        "tool_continuation_start",
        "content_delta",
    ]
    assert [name for name, _ in missing(session, STARTED, whole, goes_on)] == ["content_delta"]
    assert missing(session, STARTED, half) == []


def test_the_calls_for_a_client_are_numbered_after_those_before_them():
    ran = ToolCall(id="c1", name="t", arguments={})
    left = ToolCall(id="c2", name="client's", arguments={}, client_side=True)
    asked = msgspec.structs.replace(answer("round0", "Let me."), tool_calls=(ran,))
    result = ToolMessage(
        content="r", message_id="r1", timestamp=NOW, tool_name="t", tool_call_id="c1"
    )
    newest = msgspec.structs.replace(answer("final", "Now you."), tool_calls=(left,))
    session = session_with(asked, result, newest)

    def number_of_the_call(first, *events):
        note = ascii_json({"message_id": "round0", "first_call_index": first})
        begun = entries_of(line(0, "round", note) + lines_of(events)) if events else []
        whole = [*begun, *missing_entries(session, replay(begun), TURN_ID)]
        told = entries_of(closing_lines(session, replay(whole), TURN_ID))[0]
        assert told.event == "client_tool_call"
        return told.value()["call_index"]

    assert number_of_the_call(0) == 1
    assert number_of_the_call(0, STARTED, ContentDelta(content="Let me.")) == 1
    assert number_of_the_call(3, STARTED, ContentDelta(content="Let me.")) == 4
