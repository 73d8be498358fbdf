"""What a newer server wrote is read, or left alone; it is never taken for dead or for broken."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sessions_app.errors import SessionBusy, SessionCorrupt, SessionReadOnly
from sessions_app.service import SessionManager
from sessions_app.session import Session, with_metadata
from sessions_app.store.claims import VERSION
from sessions_app.store.file_repository import FileSessionRepository
from tests.claims import claim_session

NOW = "2026-11-21T10:00:00.000000+00:00"
SESSION_ID, TURN_ID, WORKER = "a1b2c3d4e5", "0199f3a2b4c50000abcd", "00112233445566aa"
MakeSession = Callable[..., Session]
RECORDS = [
    f"{TURN_ID}|{WORKER}|{NOW}|{VERSION + 1}",
    f"{TURN_ID}|{WORKER}|{NOW}|{VERSION}|more",
    f"v9;worker={WORKER};turn={TURN_ID}",
    f"{WORKER}/{TURN_ID}",
]


@pytest.fixture
def worker(sessions_dir: Path) -> Iterator[int]:
    """Hold the liveness lock of a newer server."""
    path = sessions_dir / ".claims" / "workers" / f"{WORKER}.lock"
    path.parent.mkdir(parents=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("kind", ["link", "file"])
@pytest.mark.parametrize("record", RECORDS)
def test_an_unknown_claim_lives_as_long_as_its_worker(
    repository: FileSessionRepository,
    sessions_dir: Path,
    make_session: MakeSession,
    worker: int,
    record: str,
    kind: str,
) -> None:
    repository.create(make_session("Hello"))
    path = sessions_dir / ".claims" / f"{SESSION_ID}.claim"
    path.symlink_to(record) if kind == "link" else path.write_text(record)
    over = FileSessionRepository(sessions_dir, is_over=lambda *_: True)
    for sees in (repository, over):
        claim = sees.claim_of(SESSION_ID)
        assert claim is not None
        assert (claim.alive, claim.is_known, claim.turn_id) == (True, False, TURN_ID)
        with pytest.raises(SessionBusy):
            claim_session(sees, SESSION_ID, "t2")
    repository.owners.mine()
    fcntl.flock(worker, fcntl.LOCK_UN)
    claim = repository.claim_of(SESSION_ID)
    assert claim is not None
    assert (claim.alive, claim.turn_id) == (False, TURN_ID)
    claim_session(repository, SESSION_ID, "t2")


def test_a_claim_of_an_older_server_is_read(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession, worker: int
) -> None:
    repository.create(make_session("Hello"))
    path = sessions_dir / ".claims" / f"{SESSION_ID}.claim"
    path.symlink_to(f"{TURN_ID}|{WORKER}|{NOW}")
    claim = repository.claim_of(SESSION_ID)
    assert claim is not None
    assert (claim.turn_id, claim.started_at, claim.alive) == (TURN_ID, NOW, True)
    assert claim.is_known


def test_a_claim_carries_its_version_where_older_servers_see_no_harm_in_it(
    repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession
) -> None:
    repository.create(make_session("Hello"))
    claim_session(repository, SESSION_ID, TURN_ID)
    record = os.readlink(sessions_dir / ".claims" / f"{SESSION_ID}.claim")
    turn_id, _, started_at, version = record.split("|")
    assert (turn_id, version) == (TURN_ID, str(VERSION))
    claim = repository.claim_of(SESSION_ID)
    assert claim is not None
    assert claim.started_at == started_at


def test_files_that_are_no_liveness_files_of_ours_are_left(
    repository: FileSessionRepository, sessions_dir: Path, worker: int
) -> None:
    other = sessions_dir / ".claims" / "workers" / "worker-7.v2"
    other.touch()
    repository.owners.mine()
    assert other.exists()


@pytest.fixture
def newer(repository: FileSessionRepository, sessions_dir: Path, make_session: MakeSession) -> Path:
    """Return the file of a session whose format has another major version."""
    repository.create(make_session("Hello"))
    path = sessions_dir / f"{SESSION_ID}.json"
    document = json.loads(path.read_text())
    document["metadata"]["format_version"] = "2.0"
    path.write_text(json.dumps(document))
    return path


WRITES: list[Callable[[SessionManager], object]] = [
    lambda manager: manager.update(SESSION_ID, model="other"),
    lambda manager: manager.edit_message(SESSION_ID, 0, "Bye"),
    lambda manager: manager.set_system_prompt(SESSION_ID, "Be brief."),
    lambda manager: manager.remove_system_prompt(SESSION_ID),
    lambda manager: manager.fork(SESSION_ID),
    lambda manager: claim_session(manager.repository, SESSION_ID, TURN_ID),
    lambda manager: manager.repository.update_idle(SESSION_ID, lambda session: session),
    lambda manager: manager.repository.update(
        SESSION_ID, lambda session: with_metadata(session, now=NOW)
    ),
]


@pytest.mark.parametrize("write", WRITES, ids=range(len(WRITES)))
def test_a_session_of_an_unknown_major_format_is_read_only_and_says_so(
    repository: FileSessionRepository, newer: Path, write: Callable[[SessionManager], object]
) -> None:
    manager = SessionManager("", repository=repository)
    before = newer.read_bytes()
    with pytest.raises(SessionReadOnly, match=r"format 2\.0") as raised:
        write(manager)
    assert raised.value.details == {"session_id": SESSION_ID, "format_version": "2.0"}
    assert newer.read_bytes() == before
    assert [message.content for message in manager.messages(SESSION_ID)] == ["Hello"]
    assert [metadata.session_id for metadata in manager.list().sessions] == [SESSION_ID]
    assert repository.claim_of(SESSION_ID) is None


def test_a_newer_session_s_dead_turn_is_left_to_its_server(
    repository: FileSessionRepository, sessions_dir: Path, newer: Path
) -> None:
    claim = sessions_dir / ".claims" / f"{SESSION_ID}.claim"
    claim.parent.mkdir(exist_ok=True)
    claim.symlink_to(f"{TURN_ID}|{WORKER}|{NOW}")
    manager = SessionManager("", repository=repository, recover=lambda session, _: session)
    assert [message.content for message in manager.messages(SESSION_ID)] == ["Hello"]
    with pytest.raises(SessionReadOnly):
        repository.update_idle(SESSION_ID, lambda session: session, recover=lambda found, _: found)
    assert claim.is_symlink()


def test_a_newer_session_can_be_deleted(repository: FileSessionRepository, newer: Path) -> None:
    repository.delete(SESSION_ID)
    assert not newer.exists()


@pytest.mark.parametrize("version", ["2.0", 2, 2.5, "banana"])
def test_a_file_that_only_a_newer_server_can_read_is_named_so(
    repository: FileSessionRepository, newer: Path, version: object
) -> None:
    newer.write_text(json.dumps({"metadata": {"format_version": version}, "turns": []}))
    with pytest.raises(SessionCorrupt, match=f"of format {version}, which this server"):
        repository.load(SESSION_ID)


def test_a_newer_minor_version_is_written_as_it_is(
    repository: FileSessionRepository, newer: Path
) -> None:
    newer.write_text(newer.read_text().replace('"2.0"', '"1.9"'))
    repository.update(SESSION_ID, lambda session: with_metadata(session, now=NOW, model="other"))
    written = json.loads(newer.read_text())["metadata"]
    assert (written["format_version"], written["model"]) == ("1.9", "other")
