"""``/health``: whether the server works, and what it works with."""

import asyncio
from collections.abc import Coroutine
from importlib.metadata import version
from typing import Any

import msgspec

from mochi_project.background.lock import WORKER_LOCK_FILE, worker_state
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.services import get_services

HEALTH_PATH = "/api/v1/health"
PING_SECONDS = 1.5
VERSION = version("mochi-server")


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """What ``/health`` answers; ``mochi_project.api.HealthOut`` describes it."""

    status: str
    ollama_connected: bool
    ollama_host: str
    version: str
    worker_alive: bool
    summaries_failing: int
    test_mode: bool
    providers: list[str]


async def health() -> bytes:
    """Return the health as JSON, within two seconds."""
    services = get_services()
    settings = services.settings
    ollama_connected = await _answers(services.models.ping())
    worker_alive, failing = await asyncio.to_thread(
        lambda: (_worker_runs(settings), services.summaries.failing())
    )
    return msgspec.json.encode(
        Health(
            status="ok",
            ollama_connected=ollama_connected,
            ollama_host=services.models.public_host,
            version=VERSION,
            worker_alive=worker_alive,
            summaries_failing=len(failing),
            test_mode=settings.test_mode,
            providers=services.models.providers,
        )
    )


def _worker_runs(settings: MochiSettings) -> bool:
    state = worker_state(settings.resolved_private_dir / WORKER_LOCK_FILE)
    return state is not None and state.phase == "running"


async def _answers(ping: Coroutine[Any, Any, bool]) -> bool:
    try:
        async with asyncio.timeout(PING_SECONDS):
            return await ping
    except TimeoutError:
        return False
