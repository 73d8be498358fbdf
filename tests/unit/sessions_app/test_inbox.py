"""Messages that wait for the next turn: their order, their limits, their form in files."""

from typing import Any

import msgspec
import pytest

from sessions_app.errors import (
    InboxFull,
    QueuedMessageNotFound,
    QueuedMessageTooLong,
    ValidationFailed,
)
from sessions_app.export import to_markdown
from sessions_app.format.codec import decode, encode
from sessions_app.format.to_json import listing_entry
from sessions_app.inbox import (
    EMPTY_INBOX,
    MOST_BYTES,
    MOST_MESSAGES,
    Inbox,
    InboxMessage,
    inbox_from_json,
    inbox_to_json,
)
from sessions_app.messages import Attachment
from sessions_app.session import Session, fork, make_session, with_inbox

NOW = "2026-11-21T10:00:00.000000+00:00"
SESSION_ID = "a1b2c3d4e5"


def waiting(message_id: str, when_busy: str = "queue", **fields: Any) -> InboxMessage:
    fields = {"content": f"of {message_id}", "queued_at": NOW, **fields}
    return InboxMessage(message_id=message_id, when_busy=when_busy, **fields)


def inbox_of(*messages: InboxMessage) -> Inbox:
    inbox = EMPTY_INBOX
    for message in messages:
        inbox = inbox.append(message)
    return inbox


def order_of(inbox: Inbox) -> str:
    return " ".join(each.message_id for each in inbox.messages)


def session_with(inbox: Inbox) -> Session:
    return with_inbox(make_session(SESSION_ID, "m", now=NOW), inbox)


def test_interrupts_come_first_then_steers_then_the_queue_each_in_its_order() -> None:
    inbox = inbox_of(
        waiting("q1"),
        waiting("s1", "steer"),
        waiting("q2"),
        waiting("i1", "interrupt"),
        waiting("s2", "steer"),
        waiting("i2", "interrupt"),
    )

    assert order_of(inbox) == "i1 i2 s1 s2 q1 q2"
    assert inbox.next is inbox.messages[0]
    assert [each.message_id for each in inbox.steers] == ["s1", "s2"]
    assert inbox.position_of("q1") == 5


def test_what_is_taken_is_gone_and_what_is_put_back_is_first_of_its_kind() -> None:
    inbox = inbox_of(waiting("q1"), waiting("q2"), waiting("s1", "steer"))

    assert order_of(inbox.take("q1", "unknown")) == "s1 q2"
    begun = inbox.begin(waiting("q1"), "t1")
    assert (order_of(begun), begun.taken.turn_id, begun.taken.attempts) == ("s1 q2", "t1", 1)
    back = begun.settle(returned=True)
    assert (order_of(back), back.taken, back.messages[1].attempts) == ("s1 q1 q2", None, 1)
    assert begun.settle(returned=False) == inbox.take("q1")


def test_a_message_moves_as_far_as_its_kind_goes() -> None:
    inbox = inbox_of(waiting("s1", "steer"), waiting("q1"), waiting("q2"), waiting("q3"))

    assert order_of(inbox.move("q3", 2)) == "s1 q3 q1 q2"
    assert order_of(inbox.move("q3", 1)) == "s1 q3 q1 q2"
    assert order_of(inbox.move("q1", 99)) == "s1 q2 q3 q1"
    assert order_of(inbox.edit("q3", when_busy="interrupt")) == "q3 s1 q1 q2"
    with pytest.raises(QueuedMessageNotFound):
        inbox.move("q9", 1)


def test_a_paused_inbox_gives_nothing_until_it_is_resumed_or_gets_another_message() -> None:
    paused = inbox_of(waiting("q1")).pause("cancelled")

    assert paused.next is None
    assert paused.take("q1") == EMPTY_INBOX
    assert paused.edit("q1", content="changed").paused == "cancelled"
    assert paused.resume().next == waiting("q1")
    assert paused.append(waiting("q2")).next == waiting("q1")
    assert EMPTY_INBOX.pause("failed") is EMPTY_INBOX


def test_there_are_at_most_twenty_messages_and_a_quarter_of_a_mebibyte() -> None:
    full = inbox_of(*(waiting(f"q{n}") for n in range(MOST_MESSAGES)))
    with pytest.raises(InboxFull) as refused:
        full.append(waiting("q20"))
    assert refused.value.details == {"max_messages": 20, "max_bytes": 262_144}

    half = waiting("long", content="x" * (MOST_BYTES // 2))
    with pytest.raises(InboxFull):
        inbox_of(half, half)


def test_a_message_that_is_too_long_to_wait_is_not_to_be_sent_again() -> None:
    with pytest.raises(QueuedMessageTooLong) as refused:
        inbox_of(waiting("q1")).edit("q1", content="x" * MOST_BYTES)
    assert (refused.value.code, refused.value.retryable) == ("INBOX_FULL", False)
    with pytest.raises(QueuedMessageTooLong):
        inbox_of(waiting("q1", request={"instructions": "x" * MOST_BYTES}))


def test_an_edit_leaves_a_text_or_a_file() -> None:
    picture = Attachment(id="sha256:1", name="a.png", media_type="image/png", size=1)
    inbox = inbox_of(waiting("q1", content="", attachments=(picture,)), waiting("q2"))

    for name, change in (("q1", {"attachments": ()}), ("q2", {"content": " "})):
        with pytest.raises(ValidationFailed) as refused:
            inbox.edit(name, **change)
        assert refused.value.details["field"] in change


def test_a_message_moves_to_the_end_however_large_the_position() -> None:
    assert order_of(inbox_of(waiting("q1"), waiting("q2")).move("q1", 10**30)) == "q2 q1"


def test_lists_say_how_many_wait_and_why_none_is_taken() -> None:
    inbox = inbox_of(waiting("q1"), waiting("q2"))

    assert "queued" not in listing_entry(session_with(EMPTY_INBOX).metadata)
    said = listing_entry(session_with(inbox.pause("failed")).metadata)
    assert (said["queued"], said["queue_paused"]) == (2, "failed")
    assert session_with(inbox).metadata.updated_at == NOW


def test_it_is_a_key_of_the_document_and_what_newer_servers_write_in_it_stays() -> None:
    raw = {
        "paused": "cancelled",
        "messages": [
            {"message_id": "1", "content": "a", "when_busy": "later", "queued_at": NOW, "x": [1]}
        ],
        "taken": {"message_id": "2", "content": "b", "queued_at": NOW, "turn_id": "t1"},
        "y": 2,
    }
    inbox = inbox_from_json(raw)

    assert inbox_to_json(inbox) == raw
    document = msgspec.json.decode(encode(session_with(inbox)))
    assert document["inbox"] == raw
    assert document["metadata"]["queued"] == 1
    assert decode(encode(session_with(inbox)), SESSION_ID).inbox == inbox


@pytest.mark.parametrize("odd", [7, [], {"messages": 1}, {"messages": [{"content": "no id"}]}])
def test_an_inbox_of_another_form_is_kept_as_it_is_and_counts_as_empty(odd: Any) -> None:
    document = msgspec.json.decode(encode(session_with(EMPTY_INBOX)))
    document["inbox"], document["metadata"]["queued"] = odd, 3

    session = decode(msgspec.json.encode(document), SESSION_ID)

    assert session.inbox == EMPTY_INBOX
    assert session.metadata.queued is None
    assert msgspec.json.decode(encode(session))["inbox"] == odd


def test_forks_and_exports_are_without_it() -> None:
    session = session_with(inbox_of(waiting("q1", content="a secret plan")))

    copy = fork(session, session_id="0000000001", now=NOW)
    assert (copy.inbox, copy.metadata.queued) == (EMPTY_INBOX, None)
    assert "secret" not in to_markdown(session)
