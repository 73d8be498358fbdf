"""What the composition root has done regularly, beside what its parts do themselves."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from chat.conversation_storage import StorageEngine, build_storage
from chat.service import ChatRequest, ChatService, SessionSpace
from chat.services import build_threads
from chat.start.turn_request import TurnRequest
from chat.summaries.service import SummaryService
from mochi_project.app import ServicePool, build_services
from mochi_project.background.task_queue import DatabaseTaskQueue
from mochi_project.configuration.loading import load_settings
from mochi_project.services import DueSummaries
from models_app.catalogue import ModelCatalogue
from scripted_app.server import ScriptedModelServer
from search_app.service import SessionSearch
from sessions_app.deadline import Deadline
from sessions_app.service import SessionManager
from sessions_app.session import with_metadata
from sessions_app.store.records import record_name
from tests.services import do_chores
from tools_app.execution_log import ExecutionLog
from tools_app.folder import FolderTools
from transfer_app.backup import entries_of

LONG_AGO = "2026-01-01T00:00:00.000000+00:00"


@pytest.mark.allow_blocking
async def test_the_index_of_searches_forgets_what_was_deleted_and_is_not_made_for_it(
    tmp_path: Path,
) -> None:
    services = build_services(load_settings(data_dir=tmp_path))
    session_id = services.get(SessionManager).create(model="m", title="Geheim").session_id
    index = tmp_path / ".mochi" / "search.sqlite3"
    await do_chores(services, lambda: True)
    assert not index.exists()
    services.get(SessionSearch).updater.fill()
    assert b"Geheim" in index.read_bytes()
    services.get(SessionManager).delete(session_id)
    await do_chores(services, lambda: b"Geheim" not in index.read_bytes())
    await services.aclose()


@pytest.mark.allow_blocking
async def test_a_session_takes_what_was_asked_of_its_turns_with_it(tmp_path: Path) -> None:
    services = build_services(load_settings(data_dir=tmp_path))
    session_id = services.get(SessionManager).create(model="m").session_id
    records, turn_id = services.get(SessionSpace).records, "0199f3a2b4c51f2e3d4c"
    records.put(record_name(session_id, turn_id, "request"), b"{}")
    services.get(SessionManager).delete(session_id)
    assert not records.names(session_id)
    await services.aclose()


@pytest.mark.allow_blocking
def test_what_was_asked_of_sessions_that_never_came_is_swept(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path)
    storage = build_storage(StorageEngine(settings), settings)
    sessions = tmp_path / "chat_sessions"
    sessions.mkdir()
    (sessions / "0123456789.json").touch()
    for session_id in ("0123456789", "0123456780"):
        storage.records.put(record_name(session_id, "0199f3a2b4c51f2e3d4c", "request"), b"{}")
    storage.discard_orphans(3600)  # they may be about to be made
    assert storage.records.names("0123456780")
    storage.discard_orphans(-3600)
    assert not storage.records.names("0123456780")
    assert storage.records.names("0123456789")


@pytest.mark.allow_blocking  # the ollama library reads its version while it is imported
async def test_chats_and_summaries_are_seen_once_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="models_app.model_calls")
    scripted = ScriptedModelServer(words_per_second=0)
    await scripted.start()
    settings = load_settings(data_dir=tmp_path, ollama_host=scripted.url)
    services = await asyncio.to_thread(build_services, settings)
    try:
        asked = ChatRequest(turn=TurnRequest(message="Hello!", detached=True), model="qwen3:14b")
        turn = await services.get(ChatService).open(asked)
        await turn.finished()
        await services.get(SummaryService).summarize(turn.session_id)
    finally:
        await services.aclose()
        await scripted.stop()

    calls = [vars(record) for record in caplog.records if record.getMessage() == "model called"]
    assert [(call["purpose"], call["outcome"]) for call in calls] == [
        ("chat", "ok"),
        ("summary", "ok"),
    ]
    assert all(call["completion_tokens"] for call in calls)


@pytest.mark.allow_blocking  # the ollama library reads its version while it is imported
async def test_a_turn_without_a_saved_session_is_in_no_list_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    scripted = ScriptedModelServer(words_per_second=0)
    await scripted.start()
    settings = load_settings(data_dir=tmp_path, ollama_host=scripted.url)
    services = await asyncio.to_thread(build_services, settings)
    asked = ChatRequest(turn=TurnRequest(message="Hello!"), model="qwen3:14b", ephemeral=True)
    try:
        turn = await services.get(ChatService).open(asked)
        await turn.finished()
        here = await services.get(ChatService).space_with(turn.session_id)
        session = await asyncio.to_thread(here.repository.load, turn.session_id)
        assert [message.role for message in session.messages] == ["user", "assistant"]
        assert not await asyncio.to_thread(lambda: services.get(SessionManager).list().sessions)
        entries = await asyncio.to_thread(lambda: list(entries_of(settings)))
        assert {entry.part.name for entry in entries} <= {"usage"}  # what it cost stays known
        turn.leave()
    finally:
        await services.aclose()
        await scripted.stop()
    left = await asyncio.to_thread(lambda: list(tmp_path.rglob(f"*{turn.session_id}*")))
    assert left == []


@pytest.mark.allow_blocking
@pytest.mark.parametrize(
    ("variables", "count"),
    [({}, 4), ({"journal_url": "redis://h", "sessions_url": "s3://bucket/prefix"}, 24)],
)
async def test_sessions_are_written_by_more_threads_where_writes_take_long(
    tmp_path: Path, variables: dict[str, str], count: int
) -> None:
    threads = build_threads(load_settings(data_dir=tmp_path, secret_key="x" * 50, **variables))
    all_at_once = threading.Barrier(count)
    try:
        await asyncio.gather(*(threads.run(lambda: all_at_once.wait(30)) for _ in range(count)))
    finally:
        await asyncio.to_thread(threads.close, Deadline())


async def test_services_are_closed_whatever_one_of_them_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    def closing(name: str, *, fails: bool = False) -> Callable[[object], Awaitable[None]]:
        async def aclose(_self: object) -> None:
            closed.append(name)
            if fails:
                raise ConnectionError(name)

        return aclose

    parts = (SummaryService, ModelCatalogue, FolderTools, ExecutionLog)
    for part in parts:
        fails = part in (SummaryService, FolderTools)
        monkeypatch.setattr(part, "aclose", closing(part.__name__, fails=fails))
    services = await asyncio.to_thread(lambda: build_services(load_settings(data_dir=tmp_path)))
    await asyncio.to_thread(services.get, ChatService)
    with pytest.raises(ConnectionError):
        await services.aclose()
    assert closed == [part.__name__ for part in parts]


@pytest.mark.allow_blocking
def test_overdue_summaries_are_queued_of_owners_who_are_not_loaded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[str] = []

    def add(_queue: object, _function: str, *arguments: str, delay_seconds: float) -> bool:
        queued.extend(arguments)
        return True

    monkeypatch.setattr(DatabaseTaskQueue, "add", add)
    settings, due = load_settings(data_dir=tmp_path), []
    for owner in ("default", "anna", "bob"):
        sessions = ServicePool(settings).of(owner).get(SessionManager)
        session_id = sessions.create(model="m").session_id
        sessions.repository.update(
            session_id, lambda s: with_metadata(s, now=LONG_AGO, summary_due=LONG_AGO)
        )
        due.append(session_id if owner == "default" else f"{owner}/{session_id}")
    pool = ServicePool(settings)
    pool.of("anna")
    queue_due = DueSummaries(pool.shared)

    queue_due(worker_is_new=True)
    assert sorted(queued) == sorted(due)
    assert set(pool.loaded()) == {"default", "anna"}  # to look at his data, nobody is loaded
    queue_due()
    assert sorted(queued) == sorted(due)  # once each
