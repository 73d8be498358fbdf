"""What processes of several machines share about tools."""

from pathlib import Path

import pytest

from mochi_project.app import build_services
from mochi_project.configuration.loading import load_settings
from tests.unit.cluster_app.test_connections import KEY
from tools_app.execution_log import ExecutionLog
from tools_app.services import build_generations
from tools_app.storage.call_log import ToolExecution


@pytest.mark.allow_blocking
async def test_machines_share_reloads_and_the_log_of_calls(
    tmp_path: Path, redis_server: str
) -> None:
    machines = []
    for name in ("one", "two"):
        settings = load_settings(data_dir=tmp_path / name, journal_url=redis_server, secret_key=KEY)
        machines.append(build_services(settings))
    here, there = (build_generations(each, "tools") for each in machines)
    log, other_log = (each.get(ExecutionLog) for each in machines)
    before = there.current()
    here.bump()
    assert there.current() == here.current() != before
    call = ToolExecution(
        tool_name="t",
        session_id="",
        tool_call_id="",
        started_at="2026-01-15T10:30:00.000000+00:00",
        duration_ms=1.5,
        success=True,
    )
    log.record(call)
    await log.aclose()
    assert call in await other_log.recent()
    for services in machines:
        await services.aclose()
    assert not (tmp_path / "one").exists()
