"""The worker beside servers of every kind, and by itself."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from tests.functional.conftest import lives

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CREATE_APP = """
import uvicorn
from mochi_server import create_app

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets=sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"mochi-server listening on http://127.0.0.1:{port}", flush=True)

Server(uvicorn.Config(create_app(background_worker=True), host="127.0.0.1", port=0)).run()
"""


def until(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


def runs(server):
    return server.chat().http.get("/health").json()["worker_alive"]


def test_a_program_of_ones_own_has_the_worker_too(start):
    server = start(program=("-c", textwrap.dedent(CREATE_APP)))
    until(lambda: runs(server))
    family = psutil.Process(server.process.pid).children(recursive=True)

    server.stop(signal.SIGKILL)

    until(lambda: not any(map(lives, family)))


def test_the_development_server_has_the_worker_too(start):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    program = (str(ROOT / "manage.py"), "runserver", "--noreload", address)
    server = start(program=program, MOCHI_BACKGROUND_WORKER="true")
    until(lambda: runs(server))
    family = psutil.Process(server.process.pid).children(recursive=True)

    server.stop(signal.SIGINT)

    assert not any(map(lives, family))


def test_the_worker_runs_by_itself(start):
    server = start(MOCHI_SUMMARIZATION_INTERVAL_SECONDS="0")
    chat = server.chat()
    assert not runs(server)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MOCHI_")}
    process = subprocess.Popen(
        [sys.executable, ROOT / "manage.py", "qcluster"],
        env={
            **environment,
            "MOCHI_DATA_DIR": str(server.data_dir),
            "MOCHI_SUMMARIZATION_INTERVAL_SECONDS": "0",
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: runs(server))
        family = psutil.Process(process.pid).children(recursive=True)
        session_id = chat.new_session()
        chat.say(session_id, "Hello!")
        # Its model is the configured Ollama, which is not there: that is told, not hidden.
        until(lambda: chat.http.get("/health").json()["summaries_failing"] == 1)

        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)
    finally:
        process.kill()

    assert output.startswith(f"the background worker of {server.data_dir} runs")
    assert process.returncode == 0
    assert not any(map(lives, family))
    assert not runs(server)
