"""Signals and approvals say of which version they are; what is newer is left alone."""

import json
from pathlib import Path

import pytest

from chat.approvals.confirmation import VERSION, Decision
from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore
from chat.errors import ConfirmationAlreadyDecided, ConfirmationExpired, ConfirmationNotFound
from chat.storage.files.signals import FileSignals
from chat.storage.files.watcher import PathWatcher
from sessions_app.messages import ToolCall
from sessions_app.store.file_records import FileRecords

SESSION, MESSAGE, TURN = "a1b2c3d4e5", "f1e2d3c4b5", "0199f3a2b4c50000abcd"
CALL = ToolCall(id="call_1", name="delete_file", arguments={"path": "/tmp/x"})
OLD = -1.0  # everything is older than that


@pytest.fixture
def signals(tmp_path: Path) -> FileSignals:
    return FileSignals(tmp_path / "signals", PathWatcher())


def store_in(directory: Path, timeout_seconds: float = 300) -> ConfirmationStore:
    records = FileRecords(directory / "confirmations", names=CONFIRMATION_RECORDS)
    return ConfirmationStore(records, timeout_seconds=timeout_seconds)


@pytest.fixture
def store(tmp_path: Path) -> ConfirmationStore:
    return store_in(tmp_path)


def ask(store):
    return store.ask(session_id=SESSION, message_id=MESSAGE, call=CALL, call_index=0, turn_id=TURN)


def make_newer(path: Path) -> bytes:
    record = json.loads(path.read_text())
    assert record["version"] == 1
    path.write_text(json.dumps(record | {"version": VERSION + 1}))
    return path.read_bytes()


def test_a_signal_carries_its_version_and_an_empty_one_is_an_older_server_s(signals, tmp_path):
    signals.send(TURN, "cancel")
    assert (tmp_path / "signals" / f"{TURN}.cancel").read_text() == "1\n"
    (tmp_path / "signals" / f"{TURN}.detach").touch()
    assert sorted(signals.take({TURN})) == [(TURN, "cancel"), (TURN, "detach")]


@pytest.mark.parametrize(
    ("name", "content"),
    [("cancel", "2\n"), ("cancel", '2 {"by": "a client"}\n'), ("pause", ""), ("pause", "1\n")],
)
def test_a_signal_that_is_not_understood_is_neither_taken_nor_swept(
    signals, tmp_path, name, content
):
    signals.send(TURN, "confirm")
    newer = tmp_path / "signals" / f"{TURN}.{name}"
    newer.write_text(content)
    assert signals.take({TURN}) == [(TURN, "confirm")]
    signals.sweep(OLD)
    assert newer.read_text() == content


def test_a_question_and_an_answer_of_an_older_server_are_good(store, tmp_path):
    question = ask(store)
    store.decide(SESSION, Decision(confirmation_id=question.confirmation_id, approved=True))
    for path in (tmp_path / "confirmations" / SESSION).iterdir():
        record = json.loads(path.read_text())
        del record["version"]
        path.write_text(json.dumps(record))
    found = store.find_decided(SESSION, MESSAGE, CALL)
    assert found is not None
    assert found.approved
    assert store.consume(SESSION, question.confirmation_id)


def test_nobody_answers_a_question_of_a_newer_server_and_it_is_not_swept(store, tmp_path):
    question = ask(store)
    path = tmp_path / "confirmations" / SESSION / f"{question.confirmation_id}.asked"
    newer = make_newer(path)
    assert store.pending(SESSION) == []
    with pytest.raises(ConfirmationNotFound):
        store.decide(SESSION, Decision(confirmation_id=question.confirmation_id, approved=True))
    store.withdraw_all(SESSION)
    assert store_in(tmp_path, timeout_seconds=0).sweep(OLD) == 0
    assert [each.read_bytes() for each in path.parent.iterdir()] == [newer]


def test_an_answer_of_a_newer_server_lets_nothing_run_and_stays(store, tmp_path):
    question = ask(store)
    store.decide(SESSION, Decision(confirmation_id=question.confirmation_id, approved=True))
    path = tmp_path / "confirmations" / SESSION / f"{question.confirmation_id}.decided"
    newer = make_newer(path)
    assert not store.consume(SESSION, question.confirmation_id)
    with pytest.raises((ConfirmationAlreadyDecided, ConfirmationExpired)):
        store.decide(SESSION, Decision(confirmation_id=question.confirmation_id, approved=True))
    assert path.read_bytes() == newer
