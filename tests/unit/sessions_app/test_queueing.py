"""Messages go from a session's inbox to its messages and back, each at one place at a time."""

import pytest

from sessions_app.inbox import EMPTY_INBOX, InboxMessage
from sessions_app.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from sessions_app.queueing import MOST_ATTEMPTS, next_message, recovered, settled
from sessions_app.session import Session, append_messages, make_session, with_inbox, with_messages

NOW = "2026-11-21T10:00:00.000000+00:00"


def waiting(message_id: str, when_busy: str = "queue") -> InboxMessage:
    return InboxMessage(
        message_id=message_id, content=f"of {message_id}", when_busy=when_busy, queued_at=NOW
    )


def session_with(*messages: InboxMessage) -> Session:
    inbox = EMPTY_INBOX
    for message in messages:
        inbox = inbox.append(message)
    return with_inbox(make_session("a1b2c3d4e5", "m", now=NOW), inbox)


def taken_in(session: Session, turn_id: str = "t1") -> Session:
    """Return the session as the claim of a turn leaves it that takes the next message."""
    message = next_message(session)
    assert message is not None
    said = UserMessage(
        content=message.content, message_id=message.message_id, timestamp=NOW, turn_id=turn_id
    )
    return append_messages(
        with_inbox(session, session.inbox.begin(message, turn_id)), said, now=NOW
    )


def ids(session: Session) -> tuple[str, str]:
    """Return the ids of the messages, and of those that wait."""
    return (
        " ".join(each.message_id for each in session.messages),
        " ".join(each.message_id for each in session.inbox.messages),
    )


def test_a_message_that_is_taken_is_said_and_forgotten_with_the_turns_first_write() -> None:
    taken = taken_in(session_with(waiting("1"), waiting("2")))
    assert ids(taken) == ("1", "2")
    assert (taken.metadata.queued, taken.inbox.taken is not None) == (1, True)

    assert settled(taken).inbox.taken is None
    assert ids(settled(taken)) == ("1", "2")


def test_a_message_whose_turn_was_undone_is_the_next_one_again() -> None:
    taken = taken_in(session_with(waiting("1"), waiting("2")))

    undone = settled(with_messages(taken, (), now=NOW), pause="failed")

    assert ids(undone) == ("", "1 2")
    assert undone.metadata.queue_paused == "failed"
    assert next_message(undone) is None


def test_a_turn_that_died_before_anybody_saw_anything_returns_its_message() -> None:
    taken = taken_in(session_with(waiting("1"), waiting("2")))

    assert ids(recovered(taken, has_begun=False)) == ("", "1 2")
    assert ids(recovered(taken, has_begun=True)) == ("1", "2")
    answered = append_messages(
        taken, AssistantMessage(content="a", message_id="3", timestamp=NOW, model="m"), now=NOW
    )
    assert ids(recovered(answered, has_begun=False)) == ("1 3", "2")


def test_a_message_that_ends_its_process_each_time_is_left_to_people() -> None:
    session = session_with(waiting("1"), waiting("2"))
    for _ in range(MOST_ATTEMPTS - 1):
        session = recovered(taken_in(session), has_begun=False)
        assert ids(session) == ("", "1 2")

    session = recovered(taken_in(session), has_begun=False)

    assert ids(session) == ("1", "2")
    assert (next_message(session), session.metadata.queue_paused) == (None, "failed")


@pytest.mark.parametrize(
    ("when_busy", "pause", "paused"),
    [
        ("queue", "cancelled", "cancelled"),
        ("steer", "cancelled", "cancelled"),
        ("interrupt", "cancelled", None),
        ("interrupt", "failed", "failed"),
        ("queue", None, None),
    ],
)
def test_a_stop_pauses_what_waits_unless_it_was_for_the_next_message(
    when_busy: str, pause: str | None, paused: str | None
) -> None:
    session = settled(session_with(waiting("1", when_busy), waiting("2")), pause=pause)

    assert session.metadata.queue_paused == paused


def test_a_session_without_an_inbox_stays_the_same_object() -> None:
    session = session_with()

    assert settled(session, pause="failed") is session
    assert recovered(session, has_begun=False) is session


def test_while_calls_are_open_only_an_interruption_is_taken() -> None:
    call = ToolCall(id="c", name="add", arguments={})
    asked = AssistantMessage(
        content="", message_id="0", timestamp=NOW, model="m", tool_calls=(call,)
    )
    session = append_messages(session_with(waiting("1")), asked, now=NOW)

    assert next_message(session) is None
    interrupted = with_inbox(session, session.inbox.append(waiting("2", "interrupt")))
    assert next_message(interrupted) == waiting("2", "interrupt")
    result = ToolMessage(content="3", message_id="3", timestamp=NOW, tool_call_id="c")
    assert next_message(append_messages(session, result, now=NOW)) == waiting("1")
