"""Where a new response goes on: after the last one, in the middle of its session, or nowhere."""

import pytest

from chat.storage.records import TURN_RECORDS
from dialects_app.responses.body import ConversationRef, ResponseIn
from dialects_app.responses.continuing import find_continued
from dialects_app.responses.errors import ConversationNotFound, PreviousResponseNotFound
from dialects_app.responses.record import ResponseRecord
from dialects_app.responses.store import ResponseStore
from sessions_app.messages import AssistantMessage, SystemMessage, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import append_messages
from sessions_app.store.file_records import FileRecords

TURNS = [f"0199f3a2b4c51f2e3d{number:02x}" for number in range(4)]
EARLIER = "0190f3a2b4c51f2e3d00"
NOW = "2026-01-02T03:04:05.000000+00:00"

pytestmark = pytest.mark.allow_blocking


def said(kind, number, turn_id):
    return kind(content="x", message_id=f"{number:010x}", timestamp=NOW, turn_id=turn_id)


@pytest.fixture
def sessions(tmp_path):
    return SessionManager(tmp_path / "chat_sessions")


@pytest.fixture
def store(tmp_path):
    return ResponseStore(FileRecords(tmp_path / "responses", names=TURN_RECORDS, durable=False))


@pytest.fixture
def session(sessions):
    """A session with a system prompt of no turn, and two turns, the second of two messages."""
    messages = [
        said(SystemMessage, 0, None),
        said(UserMessage, 1, TURNS[0]),
        said(AssistantMessage, 2, TURNS[0]),
        said(AssistantMessage, 3, None),  # added by hand between them
        said(UserMessage, 4, TURNS[1]),
        said(AssistantMessage, 5, TURNS[1]),
    ]
    made = sessions.create(model="m")
    return sessions.change(made.session_id, lambda each: append_messages(each, *messages, now=NOW))


def name_of(session, turn_id):
    return f"resp_{session.session_id}{turn_id}"


def test_the_last_response_is_followed_in_its_session(sessions, store, session):
    body = ResponseIn(previous_response_id=name_of(session, TURNS[1]))
    found = find_continued(body, sessions, store)
    assert (found.session, found.length, found.is_old) == (session, 6, False)


def test_an_older_response_ends_where_the_next_one_begins(sessions, store, session):
    body = ResponseIn(previous_response_id=name_of(session, TURNS[0]))
    found = find_continued(body, sessions, store)
    assert (found.length, found.is_old) == (4, True)


def test_a_response_that_left_nothing_is_followed_if_it_is_the_last_one(sessions, store, session):
    body = ResponseIn(previous_response_id=name_of(session, TURNS[2]))
    with pytest.raises(PreviousResponseNotFound):
        find_continued(body, sessions, store)
    store.keep(session.session_id, TURNS[2], ResponseRecord())
    assert find_continued(body, sessions, store).length == 6


@pytest.mark.parametrize("name", ["resp_x", "", f"resp_0000000000{TURNS[0]}", "conv_0000000000"])
def test_what_is_not_there_is_followed_by_nothing(sessions, store, session, name):
    with pytest.raises(PreviousResponseNotFound):
        find_continued(ResponseIn(previous_response_id=name), sessions, store)


def test_a_deleted_response_is_followed_by_nothing(sessions, store, session):
    store.delete(session.session_id, TURNS[1])
    body = ResponseIn(previous_response_id=name_of(session, TURNS[1]))
    with pytest.raises(PreviousResponseNotFound):
        find_continued(body, sessions, store)


def test_a_conversation_goes_on_at_its_end_however_it_is_named(sessions, store, session):
    name = f"conv_{session.session_id}"
    for named in (name, ConversationRef(id=name)):
        found = find_continued(ResponseIn(conversation=named), sessions, store)
        assert (found.length, found.is_old, found.is_conversation) == (6, False, True)
    for unknown in ("conv_0000000000", "x"):
        with pytest.raises(ConversationNotFound):
            find_continued(ResponseIn(conversation=unknown), sessions, store)


def test_a_request_that_names_nothing_begins(sessions, store):
    assert find_continued(ResponseIn(), sessions, store) is None


def test_the_newest_response_is_found_though_the_clock_was_set_back(sessions, store, session):
    messages = [said(UserMessage, 6, EARLIER), said(AssistantMessage, 7, EARLIER)]
    sessions.change(session.session_id, lambda each: append_messages(each, *messages, now=NOW))
    for turn_id, length in ((TURNS[0], 4), (TURNS[1], 6), (EARLIER, 8)):
        body = ResponseIn(previous_response_id=name_of(session, turn_id))
        assert find_continued(body, sessions, store).length == length


def test_a_response_branches_off_beside_another_turn_that_has_said_nothing_yet(
    sessions, store, session
):
    body = ResponseIn(previous_response_id=name_of(session, TURNS[1]))
    found = find_continued(body, sessions, store)
    assert found.branches_beside(TURNS[2])
    assert not found.branches_beside(None)
    assert not found.branches_beside(TURNS[1])  # it is not over yet, so nothing can follow it


def test_a_conversation_has_one_turn_at_a_time(sessions, store, session):
    body = ResponseIn(conversation=f"conv_{session.session_id}")
    assert not find_continued(body, sessions, store).branches_beside(TURNS[2])
