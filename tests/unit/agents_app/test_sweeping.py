"""Sessions are deleted for their age, wherever they are kept, by one process at a time."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agents_app.sweeping import FIRST_SECONDS, PAUSE_SECONDS, SessionSweep
from cluster_app.objects.repository import ObjectSessionRepository
from sessions_app.messages import UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, SessionMetadata, with_messages, with_refusal
from sessions_app.store.file_records import FileRecords
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.locks import FileLocks
from sessions_app.store.repository import SessionRepository
from tests.claims import claim_session
from tests.contract.memory_index import MemorySessionIndex
from tests.contract.memory_repository import MemoryOwners

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Clock:
    """A clock that is set by hand, and counts seconds."""

    def __init__(self) -> None:
        self.now = NOW
        self.seconds = 0.0

    def go_on(self, seconds: float = PAUSE_SECONDS, *, days: float = 0) -> None:
        self.seconds += seconds
        self.now += timedelta(seconds=seconds, days=days)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["files", "objects"])
def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> SessionManager:
    kept: SessionRepository = FileSessionRepository(tmp_path / "sessions")
    if request.param == "objects":
        objects = request.getfixturevalue("object_store")
        kept = ObjectSessionRepository(
            objects.under("sessions"),
            deleted=objects.under("deleted"),
            owners=MemoryOwners(),
            index=MemorySessionIndex(),
        )
    return SessionManager(tmp_path / "unused", repository=kept)


MakeSweep = Callable[..., SessionSweep]


@pytest.fixture
def make_sweep(
    sessions: SessionManager, chats: SessionManager, clock: Clock, tmp_path: Path
) -> MakeSweep:
    def make(days: int = 30) -> SessionSweep:
        return SessionSweep(
            sessions,
            chats,
            days=days,
            records=FileRecords(tmp_path / "records", durable=False),
            lock_dir=tmp_path / "locks",
            now=lambda: clock.now,
            elapsed=lambda: clock.seconds,
        )

    return make


def keep(sessions: SessionManager, number: int, *, days: float, **fields: Any) -> str:
    """Keep a session that was changed so many days ago."""
    changed = (NOW - timedelta(days=days)).isoformat(timespec="microseconds")
    metadata = SessionMetadata(
        session_id=f"{number:010x}", model="m", created_at=changed, updated_at=changed, **fields
    )
    said = UserMessage(content="Hello", message_id="1", timestamp=changed)
    session = with_messages(Session(metadata=metadata), [said], now=changed)
    sessions.repository.create(with_refusal(session) if fields.get("refused_at") else session)
    return session.session_id


def left(sessions: SessionManager) -> set[str]:
    return {one.session_id for one in sessions.list().sessions}


def test_old_sessions_go_and_those_that_are_used_pinned_or_imported_stay(
    sessions: SessionManager, make_sweep: MakeSweep, clock: Clock
) -> None:
    stay = {
        keep(sessions, 1, days=0),
        keep(sessions, 2, days=29),
        keep(sessions, 3, days=99, pinned=True),
        keep(sessions, 4, days=99, imported_from={"source": "chatgpt", "id": "x"}),
        keep(sessions, 5, days=99),
    }
    claim_session(sessions.repository, f"{5:010x}", "t1")
    keep(sessions, 6, days=31)
    keep(sessions, 7, days=400)
    sweep = make_sweep()
    clock.go_on(FIRST_SECONDS)
    assert {one.session_id for one in sweep.due().expired} == {f"{n:010x}" for n in (5, 6, 7)}

    assert sweep.run() == 2

    assert left(sessions) == stay


def test_nothing_expires_unless_it_is_asked_for(
    sessions: SessionManager, make_sweep: MakeSweep, clock: Clock
) -> None:
    keep(sessions, 1, days=9999)
    empty = sessions.create("m").session_id
    gone = keep(sessions, 2, days=2, refused_at="x")
    sweep = make_sweep(days=0)
    clock.go_on(FIRST_SECONDS)
    assert sweep.run() == 1
    assert left(sessions) == {f"{1:010x}", empty}
    assert gone not in left(sessions)


def test_it_is_done_once_an_hour_and_by_one_process_at_a_time(
    sessions: SessionManager, make_sweep: MakeSweep, clock: Clock, tmp_path: Path
) -> None:
    keep(sessions, 1, days=0)
    keep(sessions, 2, days=31)
    one, other = make_sweep(), make_sweep()
    assert one.run() == 0
    clock.go_on(FIRST_SECONDS)
    with FileLocks(tmp_path / "locks").held("retention", timeout_seconds=1):
        assert one.run() == 0
    assert one.run() == 0
    assert other.run() == 1
    keep(sessions, 3, days=31)
    assert other.run() == 0
    clock.go_on()
    assert one.run() == 1


def test_a_clock_that_runs_years_ahead_deletes_little_and_says_so(
    sessions: SessionManager,
    make_sweep: MakeSweep,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for number in range(30):
        keep(sessions, number, days=number / 10)
    sweep, restarted = make_sweep(), make_sweep()
    clock.go_on(FIRST_SECONDS, days=4000)
    assert sweep.run() == 0
    keep(sessions, 99, days=-4000)
    clock.go_on()
    with caplog.at_level(logging.WARNING):
        assert sweep.run() == 10
    assert "unless the clock is wrong" in caplog.text
    assert restarted.run() == 0
    assert len(left(sessions)) == 21
    clock.go_on(days=1)
    assert sweep.run() == 10


def test_agents_sessions_go_when_their_callers_are_gone(
    sessions: SessionManager, chats: SessionManager, make_sweep: MakeSweep, clock: Clock
) -> None:
    here, gone = keep(sessions, 1, days=0), keep(sessions, 2, days=31)
    of_here = keep(chats, 11, days=40, extra={"called_by": {"session_id": here}})
    keep(chats, 12, days=40, extra={"called_by": {"session_id": gone}})
    keep(chats, 13, days=40)
    new = keep(chats, 14, days=2, extra={"called_by": {"session_id": gone}})
    sweep = make_sweep()
    clock.go_on(FIRST_SECONDS)

    assert sweep.run() == 3

    assert left(sessions) == {here}
    assert left(chats) == {of_here, new}
