"""Repositories and journals, whatever they are kept in."""

from pathlib import Path

import pytest

from chat.storage.journal import TurnJournal
from cluster_app.objects.repository import ObjectSessionRepository
from cluster_app.redis.journals import RedisTurnJournal
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.repository import SessionRepository
from tests.contract.elsewhere import journal_at, place_in_redis
from tests.contract.journal_process import JournalProcess
from tests.contract.memory_index import MemorySessionIndex
from tests.contract.memory_journal import MemoryJournal
from tests.contract.memory_repository import MemoryOwners, MemorySessionRepository


@pytest.fixture(params=["files", "files that keep what begins", "memory", "objects"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> SessionRepository:
    if request.param == "memory":
        return MemorySessionRepository()
    if request.param == "objects":
        return ObjectSessionRepository(
            (objects := request.getfixturevalue("object_store")).under("sessions"),
            deleted=objects.under("deleted"),
            owners=MemoryOwners(),
            index=MemorySessionIndex(),
        )
    return FileSessionRepository(tmp_path / "sessions", keeps_begun=request.param != "files")


SESSION, TURN = "a1b2c3d4e5", "0199f3a2b4c50000abcd"


@pytest.fixture(params=["files", "memory", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the journals are, in words that another process understands."""
    if request.param == "memory":
        return ""
    if request.param == "redis":
        prefix = request.getfixturevalue("redis_connection").prefix
        return place_in_redis(request.getfixturevalue("redis_server"), prefix)
    return str(tmp_path / "turns")


@pytest.fixture
def journal(place: str) -> TurnJournal:
    return journal_at(place) if place else MemoryJournal()


@pytest.fixture
async def journal_on_loop(journal: TurnJournal):
    yield journal
    if isinstance(journal, RedisTurnJournal):
        journal.close()


@pytest.fixture
def elsewhere(place: str):
    if not place:
        pytest.skip("no other process sees this one's memory")
    writer = JournalProcess(place, SESSION, TURN)
    yield writer
    writer.end(by_kill=True)
