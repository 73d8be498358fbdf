"""The sessions of clients that name their conversations themselves."""

import pytest

from dialects_app.shared.client_sessions import find_session, session_id_of
from sessions_app.errors import ValidationFailed
from sessions_app.ids_and_clock import utc_now
from sessions_app.service import SessionManager
from sessions_app.session import make_session

NAME = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"


@pytest.fixture
def sessions(tmp_path):
    return SessionManager(tmp_path)


def find(sessions, name):
    return find_session(sessions, name, field="threadId")


def make(sessions, session_id, **metadata):
    return sessions.keep_new(make_session(session_id, "small:1b", now=utc_now(), **metadata))


def test_a_name_that_nobody_used_has_an_id_and_no_session(sessions):
    found = find(sessions, NAME)
    assert (found.session, found.client_id) == (None, NAME)
    assert found.session_id == session_id_of(NAME)


def test_the_session_that_was_made_for_a_name_is_found_again(sessions):
    made = make(sessions, find(sessions, NAME).session_id, client_id=NAME)
    assert find(sessions, NAME).session == made


def test_a_session_is_found_by_its_own_id(sessions):
    made = make(sessions, "a1b2c3d4e5")
    found = find(sessions, "a1b2c3d4e5")
    assert (found.session, found.client_id) == (made, None)


def test_a_session_of_somebody_else_under_the_id_of_a_name_is_not_taken(sessions):
    make(sessions, session_id_of(NAME))
    found = find(sessions, NAME)
    assert (found.session_id, found.session) == (session_id_of(NAME, 1), None)


def test_a_copy_of_a_session_is_not_found_by_the_name_of_the_original(sessions):
    made = make(sessions, find(sessions, NAME).session_id, client_id=NAME)
    copy = sessions.fork(made.session_id)
    assert copy.metadata.client_id is None
    assert find(sessions, NAME).session_id == made.session_id


@pytest.mark.parametrize("name", ["", "a" * 65, "a/b", "..", "a b", "ä", "a\n"])
def test_what_is_no_name_is_refused(sessions, name):
    with pytest.raises(ValidationFailed) as refused:
        find(sessions, name)
    assert refused.value.details["field"] == "threadId"
