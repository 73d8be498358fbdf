"""A real server process at whose edge the tests knock, over sockets of their own."""

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.functional.conftest import NO_TLS
from tests.functional.processes import Process, start_process

ROOT = Path(__file__).parents[3]
SERVE = str(Path(__file__).with_name("serve.py"))


@dataclass(frozen=True)
class RawAnswer:
    """What came back over a socket; ``closed`` tells whether the server then hung up."""

    status: int
    headers: dict[str, str]
    body: bytes
    closed: bool

    @property
    def error(self) -> dict[str, Any]:
        """The envelope's content."""
        assert self.headers["content-type"].startswith("application/json")
        return dict(json.loads(self.body)["error"])


@dataclass(frozen=True)
class EdgeServer:
    """A running server process."""

    process: Process
    url: str
    data_dir: Path

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])

    def client(self, **options: Any) -> httpx.Client:
        """Return an HTTP client of this server."""
        return httpx.Client(
            base_url=self.url, trust_env=False, verify=NO_TLS, timeout=20, **options
        )

    def connect(self) -> socket.socket:
        """Return a socket to it."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def raw(self, data: bytes) -> RawAnswer:
        """Send bytes and read one answer."""
        with self.connect() as sock:
            sock.sendall(data)
            return self.read(sock)

    def read(self, sock: socket.socket) -> RawAnswer:
        """Read one answer with a Content-Length, and whether the connection ends after it."""
        with sock.makefile("rb") as file:
            status = int(file.readline().split()[1])
            headers = {}
            while line := file.readline().strip():
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.lower()] = value.strip()
            body = file.read(int(headers.get("content-length", 0)))
            closed = headers.get("connection") == "close" and file.read(1) == b""
        return RawAnswer(status, headers, body, closed)

    def sessions_on_disk(self) -> list[Path]:
        """Return the session files that exist."""
        found = (self.data_dir / "chat_sessions").glob("*")
        return [path for path in found if path.is_file()]  # the folder of locks stays

    def memory(self) -> int:
        """Return the bytes of memory that the process uses."""
        return int(psutil.Process(self.process.pid).memory_info().rss)


StartEdge = Callable[..., EdgeServer]


@contextmanager
def running(data_dir: Path, **variables: str) -> Iterator[EdgeServer]:
    """Run a server process with these environment variables."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MOCHI_", "DJANGO_"))}
    environment = {
        "PYTHONPATH": str(ROOT),
        "MOCHI_DATA_DIR": str(data_dir),
        "MOCHI_BACKGROUND_WORKER": "false",
        "MOCHI_OLLAMA_HOST": "http://user:pass-canary@127.0.0.1:9",
    }
    with (data_dir / "stderr.txt").open("w") as log:
        process = start_process(
            [sys.executable, "-c", f"import runpy; runpy.run_path({SERVE!r}, run_name='__main__')"],
            cwd=data_dir,
            env={**kept, **environment, **variables},
            stderr=log,
            forks_code=True,
        )
    assert process.stdout is not None
    with process.stdout:
        url = process.stdout.readline().strip()
        assert url, (data_dir / "stderr.txt").read_text()
        try:
            yield EdgeServer(process, url, data_dir)
        finally:
            process.terminate()
            process.wait(timeout=20)


@pytest.fixture
def start_edge(tmp_path: Path) -> Iterator[StartEdge]:
    """Start servers with these environment variables; all are stopped in the end."""
    with ExitStack() as stack:
        yield lambda **variables: stack.enter_context(running(tmp_path, **variables))


@pytest.fixture(scope="module")
def edge_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeServer]:
    """One server with the default configuration for all tests of a module."""
    with running(tmp_path_factory.mktemp("edge")) as server:
        yield server
