"""Which calls have begun, beside claims in files."""

import pytest

from sessions_app.errors import StorageFull
from sessions_app.session import Session, SessionMetadata
from sessions_app.store.begun_calls import BegunCalls
from sessions_app.store.file_repository import FileSessionRepository
from tests.claims import claim_session, hold_of
from tests.unit.chat.disk import FailingDisk

SESSION, NOW = "a1b2c3d4e5", "2026-11-21T10:00:00.000000+00:00"


def test_calls_are_those_of_the_turn_whatever_they_are_called(tmp_path):
    begun = BegunCalls(tmp_path)
    begun.add(SESSION, "t1", ["m/call_0"])
    begun.add(SESSION, "t2", ["m/one\ntwo", "m/ü"])
    begun.add(SESSION, "t2", ["n/call_0"])
    assert begun.of(SESSION, "t2") == ("m/one\ntwo", "m/ü", "n/call_0")
    assert begun.of("0123456789", "t2") == ()
    begun.remove(SESSION)
    begun.remove(SESSION)
    assert begun.of(SESSION, "t2") == ()


def test_a_line_that_was_cut_off_counts_for_nothing(tmp_path):
    begun = BegunCalls(tmp_path)
    begun.add(SESSION, "t1", ["m/call_0"])
    [path] = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(b'["t1",["m/call_1')
    assert begun.of(SESSION, "t1") == ("m/call_0",)
    begun.add(SESSION, "t1", ["n/call_0"])
    assert begun.of(SESSION, "t1") == ("m/call_0", "n/call_0")


def test_something_else_in_its_place_hides_no_claim(tmp_path):
    (tmp_path / f"{SESSION}.begun").mkdir()
    assert BegunCalls(tmp_path).of(SESSION, "t1") == ()


def test_on_a_full_disk_nothing_begins_and_nothing_is_saved(tmp_path):
    repository = FileSessionRepository(tmp_path, keeps_begun=True)
    session = Session(
        metadata=SessionMetadata(session_id=SESSION, model="m", created_at=NOW, updated_at=NOW)
    )
    repository.create(session)
    claim_session(repository, SESSION, "t1")
    with FailingDisk(tmp_path).installed() as disk:
        disk.fill()
        with pytest.raises(StorageFull):
            repository.update(
                SESSION, lambda found: found, hold=hold_of(repository, "t1"), begun=["m/call_0"]
            )
    assert repository.load(SESSION) == session


def test_where_journals_know_nothing_is_written(tmp_path):
    repository = FileSessionRepository(tmp_path)
    session = Session(
        metadata=SessionMetadata(session_id=SESSION, model="m", created_at=NOW, updated_at=NOW)
    )
    repository.create(session)
    claim_session(repository, SESSION, "t1")
    repository.update(
        SESSION, lambda found: found, hold=hold_of(repository, "t1"), begun=["m/call_0"]
    )
    assert [path.suffix for path in (tmp_path / ".claims").iterdir() if path.is_file()] == []
