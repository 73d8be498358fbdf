"""The application starts and stops whole, whatever fails beside it."""

import asyncio
import logging
from pathlib import Path

import pytest

from mochi_project.app import Services, current_services
from mochi_project.background.supervisor import WorkerSupervisor
from mochi_project.configuration.loading import load_settings
from mochi_project.process.lifespan import MochiApplication

pytestmark = pytest.mark.allow_blocking


async def test_a_worker_that_cannot_start_is_logged_and_keeps_nothing_from_being_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = asyncio.Event()

    def fail(_self: WorkerSupervisor) -> None:
        tried.set()
        raise PermissionError("worker.lock")

    monkeypatch.setattr(WorkerSupervisor, "start", fail)
    application = MochiApplication(
        load_settings(data_dir=tmp_path, background_worker=True, test_mode=True)
    )
    closed: list[Services] = []
    aclose = Services.aclose

    async def note(services: Services) -> None:
        closed.append(services)
        await aclose(services)

    monkeypatch.setattr(Services, "aclose", note)
    async with asyncio.timeout(30), application.running():
        services = current_services()
        await tried.wait()
    assert closed[0] is services  # and what it shares after it
    [error] = [it for it in caplog.records if it.levelno == logging.ERROR]
    assert "the background worker could not be started" in error.getMessage()
