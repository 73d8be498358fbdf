"""Reports the health of the server and its dependencies."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from chat.errors import ShuttingDown
from mochi_project.app import mochi_apps, service, shared_service
from mochi_project.background.worker_state import WORKER_LOCK_FILE, worker_state
from mochi_project.configuration.config import ServerSettings
from mochi_project.configuration.constants import WINGS
from mochi_project.reachability import Reachability, Stores, SummaryChecks
from mochi_project.version import VERSION
from models_app.catalogue import ModelCatalogue
from sessions_app.deadline import Deadline
from sessions_app.errors import MochiError, StorageReadOnly, StorageUnavailable
from sessions_app.settings import SessionsSettings

PING_SECONDS = 1.5


class HealthOut(BaseModel):
    """The state of the server, and of what it depends on; strangers get the `status` alone."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "status": "ok",
                "ollama_connected": True,
                "ollama_host": "http://localhost:11434",
                "version": "0.2.0",
                "journal": "files",
                "sessions": "files",
                "worker_alive": True,
                "summaries_failing": 0,
                "test_mode": False,
                "providers": ["ollama"],
                "apps": ["search_app", "transfer_app", "dialects_app", "usage_app"],
            }
        }
    )

    status: str = Field(description="`ok` whenever this server works, whatever Ollama does")
    ollama_connected: bool | None = Field(None, description="Whether Ollama answered just now")
    ollama_host: str | None = Field(None, description="Ollama's URL, without credentials")
    version: str | None = None
    journal: Reachability | None = Field(
        None,
        description="Whether `MOCHI_JOURNAL_URL` answered just now, and takes writes (else "
        "`unwritable` or `full`); `files` without one",
    )
    sessions: Reachability | None = Field(
        None,
        description="Whether `MOCHI_SESSIONS_URL` answered in the last seconds, and takes writes "
        "(else `unwritable` or `full`); `files` without one",
    )
    worker_alive: bool | None = Field(
        None, description="Whether a background worker runs, in any process on any machine"
    )
    summaries_failing: int | None = Field(
        None, description="Sessions whose summary could not be made; `doctor` says why"
    )
    test_mode: bool | None = Field(
        None, description="Whether a scripted model answers instead of Ollama"
    )
    providers: list[str] | None = Field(None, description="Configured providers of models")
    apps: list[str] | None = Field(
        None, description="Apps that `MOCHI_APPS_OFF` could leave out, and are on"
    )


class ReadyOut(BaseModel):
    """This process takes requests."""

    model_config = ConfigDict(json_schema_extra={"example": {"status": "ready"}})

    status: str = Field(description="Always `ready`")


async def ready() -> ReadyOut:
    """Check whether requests should be sent to this process.

    The error is that of the first thing that is not ready; its ``not_ready`` lists all of them.

    Raises:
        ShuttingDown: It is about to stop, and starts no turns any more.
        StorageReadOnly: It can't write to its data directory.
        StorageUnavailable, StorageFull: Something else is in the place of a directory, or it can't
            reach, or not write to, what it shares with other machines.
    """
    checks = (_require_running, _require_writable, shared_service(Stores).require)
    found = await asyncio.gather(*(_problem_of(check) for check in checks))
    problems = [problem for problem in found if problem is not None]
    if problems:
        problems[0].details["not_ready"] = [
            {"code": problem.code, "message": problem.message} for problem in problems
        ]
        raise problems[0]
    return ReadyOut(status="ready")


async def _problem_of(check: Callable[[], Awaitable[None]]) -> MochiError | None:
    try:
        await check()
    except MochiError as problem:
        return problem
    return None


async def _require_running() -> None:
    if shared_service(Deadline).is_set:
        raise ShuttingDown


async def _require_writable() -> None:
    await asyncio.to_thread(_require_directories, shared_service(SessionsSettings))


def _require_directories(settings: SessionsSettings) -> None:
    directories = [settings.resolved_state_dir]
    if settings.sessions_url is None:
        attachments = settings.resolved_data_dir / "attachments"
        others = (settings.resolved_sessions_dir, settings.resolved_agent_chats_dir, attachments)
        directories += [each for each in others if os.path.lexists(each)]  # else made when needed
    for directory in directories:
        if os.path.lexists(directory) and not directory.is_dir():
            raise StorageUnavailable(f"{directory} is not a directory: move it out of the way.")
        if not os.access(directory, os.W_OK | os.X_OK):
            raise StorageReadOnly(f"{directory} can't be written to")


async def health() -> HealthOut:
    """Check the services, within two seconds."""
    stores, models = shared_service(Stores), service(ModelCatalogue)
    ollama_connected, journal, sessions, failing = await asyncio.gather(
        _answers(models.ping()),
        stores.journal(),
        stores.sessions(),
        service(SummaryChecks).failures(),
    )
    worker_alive = journal.workers > 0
    if journal.state == "files":
        worker_alive = await asyncio.to_thread(_worker_runs, service(ServerSettings))
    return HealthOut(
        status="ok",
        ollama_connected=ollama_connected,
        ollama_host=models.public_host,
        version=VERSION,
        journal=journal.state,
        sessions=sessions,
        worker_alive=worker_alive,
        summaries_failing=failing,
        test_mode=service(ServerSettings).test_mode,
        providers=models.providers,
        apps=[app.name for app in mochi_apps() if app.name in WINGS],
    )


def _worker_runs(settings: ServerSettings) -> bool:
    state = worker_state(settings.resolved_private_dir / WORKER_LOCK_FILE)
    return state is not None and state.phase == "running"


async def _answers(ping: Coroutine[Any, Any, bool]) -> bool:
    try:
        async with asyncio.timeout(PING_SECONDS):
            return await ping
    except TimeoutError:
        return False
