"""Fixtures of unit tests in several folders: a directory of sessions, and what fills it."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from scripted_app.server import ScriptedModelServer
from sessions_app.messages import AssistantMessage, Message, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, SessionMetadata, with_messages
from sessions_app.store.file_repository import FileSessionRepository

NOW = "2026-11-21T10:00:00.000000+00:00"
SESSION_ID = "a1b2c3d4e5"

MakeSession = Callable[..., Session]


@pytest.fixture(autouse=True)
def of_default(acts_as_operator: None) -> None:
    """Use services as the owner ``default`` does."""


@pytest.fixture
async def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return what sets the clock of the loop ahead by so many seconds."""
    loop = asyncio.get_running_loop()
    now, ahead = loop.time, 0.0

    def pass_time(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    monkeypatch.setattr(loop, "time", lambda: now() + ahead)
    return pass_time


@pytest.fixture
def sessions_dir(tmp_path: Path) -> Path:
    return tmp_path / "chat_sessions"


@pytest.fixture
def repository(sessions_dir: Path) -> FileSessionRepository:
    return FileSessionRepository(sessions_dir)


@pytest.fixture
def manager(sessions_dir: Path) -> SessionManager:
    return SessionManager(sessions_dir=sessions_dir)


@pytest.fixture
def make_session() -> MakeSession:
    """Return a maker of sessions whose messages are a question and an answer by turns."""

    def make(
        *texts: str, session_id: str = SESSION_ID, updated_at: str = NOW, model: str = "qwen3:14b"
    ) -> Session:
        metadata = SessionMetadata(
            session_id=session_id, model=model, created_at=NOW, updated_at=updated_at
        )
        messages: list[Message] = []
        for index, text in enumerate(texts):
            common = {"content": text, "message_id": f"{index:010x}", "timestamp": NOW}
            messages.append(
                AssistantMessage(**common, model=model) if index % 2 else UserMessage(**common)
            )
        return with_messages(Session(metadata=metadata), messages, now=updated_at)

    return make


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Let nothing be collected as garbage while the test runs."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedModelServer]:
    """Return a model server that answers at once with what it is told to."""
    server = ScriptedModelServer(words_per_second=0)
    await server.start()
    yield server
    await server.stop()
