"""Metrics and traces are built where they are switched on, and nowhere else loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mochi_project.configuration.loading import load_settings
from mochi_project.configuration.setting_errors import ConfigurationError
from usage_app.services import build_traces

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from pathlib import Path
from mochi_project.configuration.loading import load_settings
from usage_app.services import build_meters
meters = build_meters(load_settings(data_dir=Path(sys.argv[1]), metrics=sys.argv[2] == "on"))
print(meters is not None, "prometheus_client" in sys.modules)
"""


def built(data_dir: Path, metrics: str) -> str:
    """Build in a process of its own, as the library is loaded once in a process."""
    command = [sys.executable, "-c", PROGRAM, str(data_dir), metrics]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_metrics_that_are_on_are_built(tmp_path: Path) -> None:
    assert built(tmp_path, "on") == "True True"


def test_metrics_that_are_off_cost_not_even_an_import(tmp_path: Path) -> None:
    assert built(tmp_path, "off") == "False False"


@pytest.mark.skipif(sys.platform == "win32", reason="modes of directories")
def test_where_nothing_can_be_written_nothing_is_counted(tmp_path: Path) -> None:
    (tmp_path / ".mochi").mkdir()
    (tmp_path / ".mochi" / "metrics").write_text("in the way")
    assert built(tmp_path, "on") == "False False"


OFF = """
import asyncio, sys
import mochi_project.asgi
from mochi_project.principal import OPERATOR, acting_for
from chat.service import ChatRequest, ChatService
from chat.start.turn_request import TurnRequest
from mochi_project.configuration.loading import load_settings
from mochi_project.app import build_services
from scripted_app.server import ScriptedModelServer

async def main():
    scripted = ScriptedModelServer(words_per_second=0)
    await scripted.start()
    services = build_services(load_settings(ollama_host=scripted.url))
    asked = ChatRequest(turn=TurnRequest(message="Hello!", detached=True), model="qwen3:14b")
    outcome = await (await services.get(ChatService).open(asked)).finished()
    assert outcome.state.value == "completed", outcome
    await services.aclose()
    await scripted.stop()

with acting_for(OPERATOR):
    asyncio.run(main())
print([name for name in sys.modules if name.startswith(("opentelemetry", "usage_app.traces"))])
"""


def test_without_traces_a_turn_imports_nothing_of_them(tmp_path):
    environment = {**os.environ, "MOCHI_DATA_DIR": str(tmp_path)}
    environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}

    ran = subprocess.run(
        [sys.executable, "-c", OFF], env=environment, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.splitlines()[-1] == "[]"


def test_without_traces_nothing_is_built(tmp_path):
    assert build_traces(load_settings(data_dir=tmp_path)) is None


def test_an_exporter_that_there_is_not_stops_the_start(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")

    with pytest.raises(ConfigurationError, match="OTEL_TRACES_EXPORTER must be otlp, console"):
        build_traces(load_settings(data_dir=tmp_path, traces=True))
