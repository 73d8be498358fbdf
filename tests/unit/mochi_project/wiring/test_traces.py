"""Traces are built where they are switched on; elsewhere nothing of them is even imported."""

import os
import subprocess
import sys

import pytest

from mochi_project.configuration.loading import load_settings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.wiring.traces import build_traces, with_incoming_traces

OFF = """
import asyncio, sys
import mochi_project.asgi
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
    settings = load_settings(data_dir=tmp_path)

    async def application(scope, receive, send):
        """Do nothing."""

    assert build_traces(settings) is None
    assert with_incoming_traces(settings, application) is application


def test_an_exporter_that_there_is_not_stops_the_start(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")

    with pytest.raises(ConfigurationError, match="OTEL_TRACES_EXPORTER must be otlp, console"):
        build_traces(load_settings(data_dir=tmp_path, traces=True))
