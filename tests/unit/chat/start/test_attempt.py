"""What a claim made of its session is taken back, and nothing else."""

import pytest

from chat.start.attempt import Attempt
from sessions_app.edits import edit_user_message
from sessions_app.labels import with_labels
from sessions_app.messages import SystemMessage, UserMessage
from sessions_app.session import (
    append_messages,
    make_session,
    set_system_prompt,
    with_metadata,
    with_refusal,
)

BEFORE, NOW, LATER = (f"2026-11-21T10:00:0{second}.000000+00:00" for second in range(3))
SESSION = append_messages(
    make_session("0123456789", "m", now=BEFORE),
    UserMessage(content="Hi", message_id="1", timestamp=BEFORE),
    now=BEFORE,
)


def said_in(session, message_id="2", now=NOW):
    said = UserMessage(content="Hello!", message_id=message_id, timestamp=now)
    return append_messages(session, said, now=now)


@pytest.fixture
def attempt():
    return Attempt()


@pytest.fixture
def first():
    """Return an attempt in a session that was created for it."""
    return Attempt(is_new=True)


@pytest.fixture
def claimed(attempt, first):
    """Return the session as an attempt has claimed it."""
    claimed = said_in(SESSION)
    for each in (attempt, first):
        each.note(SESSION, claimed)
    return claimed


def test_a_session_that_nobody_else_has_changed_is_as_it_was(attempt, first, claimed):
    assert attempt.taken_back(claimed) == SESSION
    assert first.taken_back(claimed) == with_refusal(SESSION)


def test_a_session_that_a_turn_only_went_on_with_is_as_it_was(attempt):
    claimed = with_metadata(SESSION, now=NOW, options={"seed": 1})
    attempt.note(SESSION, claimed)

    assert attempt.taken_back(claimed) == SESSION


@pytest.mark.parametrize(
    "labels",
    [{"title": "Mine", "titled_by": "person"}, {"pinned": True}, {"summary": {"summary": "S"}}],
)
def test_what_is_written_without_a_new_time_stays(attempt, claimed, labels):
    left = attempt.taken_back(with_labels(claimed, **labels))

    assert left == with_labels(SESSION, **labels)


def test_what_the_turn_has_set_is_taken_back_beside_what_others_have(attempt):
    claimed = with_metadata(said_in(SESSION), now=NOW, options={"seed": 1})
    attempt.note(SESSION, claimed)

    left = attempt.taken_back(with_metadata(claimed, now=LATER, title="Mine"))

    assert left == with_metadata(SESSION, now=LATER, title="Mine")


def test_a_session_that_others_have_changed_is_not_marked_as_refused(first, claimed):
    """What bears the mark is deleted after a while."""
    prompt = SystemMessage(content="Be brief.", message_id="0", timestamp=LATER)
    labelled = with_labels(claimed, title="Mine", titled_by="person")
    prompted = set_system_prompt(claimed, prompt, now=LATER)

    assert first.taken_back(labelled).metadata.refused_at is None
    left = first.taken_back(prompted)
    assert left == set_system_prompt(SESSION, prompt, now=LATER)


def test_the_mark_of_a_session_does_not_outlive_what_others_have_changed(attempt):
    refused = with_refusal(SESSION)
    claimed = said_in(refused)
    attempt.note(refused, claimed)

    assert attempt.taken_back(claimed) == refused
    left = attempt.taken_back(with_labels(claimed, pinned=True))
    assert (left.metadata.pinned, left.metadata.refused_at) == (True, None)


def test_what_an_earlier_try_has_made_is_taken_back(attempt, claimed):
    """Its write got no answer, and arrived when the change had been made once more."""
    attempt.note(SESSION, said_in(SESSION, message_id="3", now=LATER))

    assert attempt.taken_back(claimed) == SESSION


def test_a_session_that_went_on_stays_as_it_is(attempt, claimed):
    gone_on = said_in(claimed, message_id="3")

    assert attempt.taken_back(gone_on) is gone_on
    assert Attempt(is_new=True).taken_back(claimed) is claimed


def test_a_session_without_messages_stays_as_it_is(attempt, claimed):
    emptied = make_session("0123456789", "m", now=LATER)

    assert attempt.taken_back(emptied) is emptied


def test_messages_that_were_removed_for_a_turn_come_back(attempt):
    whole = with_metadata(said_in(said_in(SESSION), "3"), now=NOW, summary={"summary": "S"})
    edited = edit_user_message(whole, 1, "Hello?", now=LATER)
    attempt.note(whole, edited, rewinds=True)

    assert attempt.taken_back(edited) == whole
    pinned = with_labels(edited, pinned=True)
    assert attempt.taken_back(pinned) == with_labels(whole, pinned=True)
    gone_on = said_in(edited, "4", LATER)
    assert attempt.taken_back(gone_on) is gone_on
