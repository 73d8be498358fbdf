"""What processes of several machines share about tools."""

from pathlib import Path

import pytest

from mochi_project.configuration.loading import load_settings
from mochi_project.wiring.attachments import build_attachment_service
from mochi_project.wiring.cluster import build_cluster
from mochi_project.wiring.tools import build_generations, build_tools
from tests.unit.mochi_project.wiring.test_cluster import KEY
from tools_app.storage.call_log import ToolExecution


@pytest.mark.allow_blocking
async def test_machines_share_reloads_and_the_log_of_calls(
    tmp_path: Path, redis_server: str
) -> None:
    machines = []
    for name in ("one", "two"):
        settings = load_settings(data_dir=tmp_path / name, journal_url=redis_server, secret_key=KEY)
        cluster = build_cluster(settings)
        files = build_attachment_service(settings, cluster)
        tools = build_tools(settings, cluster, files)
        machines.append((build_generations(settings, cluster, "tools"), tools))
    (here, tools), (there, others) = machines
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
    tools.executions.record(call)
    await tools.executions.aclose()
    assert call in await others.executions.recent()
    for services in (tools, others):
        await services.aclose()
    assert not (tmp_path / "one").exists()
