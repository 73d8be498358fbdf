"""The records of responses: kept beside the sessions, and gone with them."""

import pytest

from chat.storage.files.records import FileRecords
from dialects_app.responses.record import (
    NO_END,
    NO_RECORD,
    ResponseEnd,
    ResponseRecord,
    ResumedCall,
)
from dialects_app.responses.store import KINDS, NAMES, ResponseStore

SESSION, OTHER_SESSION = "a1b2c3d4e5", "0123456789"
TURN, OTHER_TURN = "0199f3a2b4c51f2e3d4c", "0199f3a2b4c51f2e3d4d"
RECORD = ResponseRecord(
    echo={"metadata": {"a": "b"}, "tools": [{"type": "function"}], "temperature": 0.5},
    background=True,
    include=["mochi.agent_events"],
    resumed={"c1": ResumedCall(name="add", arguments={"a": 1}, confirmation_id="conf_1")},
)
HOUR = 3600


@pytest.fixture
def root(tmp_path):
    return tmp_path / "responses"


@pytest.fixture
def store(root):
    saved, ephemeral = (
        FileRecords(path, names=NAMES, kinds=KINDS, durable=False)
        for path in (root, root.parent / "ephemeral")
    )
    return ResponseStore(saved, ephemeral)


def test_a_record_is_read_as_it_was_kept(store):
    store.keep(SESSION, TURN, RECORD)
    end = ResponseEnd(error_code="NETWORK_ERROR", error_message="Gone.", questions={"c": "conf"})
    store.keep_end(SESSION, TURN, end)
    assert store.record(SESSION, TURN) == RECORD
    assert store.end(SESSION, TURN) == end
    assert store.known_record(SESSION, OTHER_TURN) is None


def test_a_record_that_is_lost_or_broken_says_nothing(store, root):
    assert (store.record(SESSION, TURN), store.end(SESSION, TURN)) == (NO_RECORD, NO_END)
    store.keep(SESSION, TURN, RECORD)
    store.keep_end(SESSION, TURN, ResponseEnd())
    for path in (root / SESSION).iterdir():
        path.write_bytes(b'{"echo": 3')
    assert (store.record(SESSION, TURN), store.end(SESSION, TURN)) == (NO_RECORD, NO_END)


def test_a_deleted_response_is_one_of_its_session_alone(store):
    store.keep(SESSION, TURN, RECORD)
    store.delete(SESSION, TURN)
    assert store.is_deleted(SESSION, TURN)
    assert not store.is_deleted(SESSION, OTHER_TURN)
    assert not store.is_deleted(OTHER_SESSION, TURN)


@pytest.mark.parametrize("ephemeral", [False, True])
def test_the_records_of_sessions_that_are_gone_go_too(store, ephemeral):
    def sweep(*kept, seconds):
        def exists(session_id):
            return session_id in kept

        here, there = (exists, lambda _: False)[:: -1 if ephemeral else 1]
        store.sweep(here, there, older_than_seconds=seconds)

    for session_id in (SESSION, OTHER_SESSION):
        store.keep(session_id, TURN, RECORD, ephemeral=ephemeral)
    sweep(seconds=HOUR)  # they may be about to be made
    assert store.known_record(SESSION, TURN)
    sweep(SESSION, seconds=-HOUR)
    assert store.known_record(SESSION, TURN)
    assert store.known_record(OTHER_SESSION, TURN) is None
    store.discard_session(SESSION)
    assert store.known_record(SESSION, TURN) is None


def test_what_is_noted_of_an_ephemeral_response_goes_with_it(store, root):
    store.keep(SESSION, TURN, RECORD, ephemeral=True)
    store.keep_end(SESSION, TURN, ResponseEnd(error_code="NETWORK_ERROR"))
    store.delete(SESSION, TURN)
    assert store.end(SESSION, TURN).error_code == "NETWORK_ERROR"
    assert store.is_deleted(SESSION, TURN)
    assert not root.exists()
