"""The records of responses: kept beside the sessions, and gone with them."""

import pytest

from chat.storage.records import TURN_RECORDS
from dialects_app.responses.record import NO_END, NO_RECORD, ResponseEnd, ResponseRecord
from dialects_app.responses.store import ResponseStore
from sessions_app.store.file_records import FileRecords

SESSION, OTHER_SESSION = "a1b2c3d4e5", "0123456789"
TURN, OTHER_TURN = "0199f3a2b4c51f2e3d4c", "0199f3a2b4c51f2e3d4d"
RECORD = ResponseRecord(
    echo={"metadata": {"a": "b"}, "tools": [{"type": "function"}], "temperature": 0.5},
    background=True,
    include=["mochi.agent_events"],
)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "responses"


@pytest.fixture
def store(root):
    return ResponseStore(FileRecords(root, names=TURN_RECORDS, durable=False))


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
