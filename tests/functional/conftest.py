"""Real servers in processes of their own, with scripted models, and clients on real sockets."""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from httpx_sse import EventSource

from tests.functional import zygote
from tests.functional.processes import Process, start_process

ROOT = Path(__file__).parents[2]
LISTENING = re.compile(r"^mochi-server listening on ((?:http://|unix:)\S+)$")
LONGEST_LOG = 20_000
MODEL = "qwen3:14b"
NO_TLS = ssl.SSLContext(
    ssl.PROTOCOL_TLS_CLIENT
)  # loading certificates would cost each client 30 ms


def block(*texts: Any, **keys: Any) -> str:
    """Return a user message that scripts its answer: texts, or whole entries of ``messages``."""
    messages = [
        entry if isinstance(entry, dict) else {"text_message": {"text": entry}} for entry in texts
    ]
    script = {"messages": messages, **keys} if messages else keys
    return f"<|instruction_start|>{json.dumps(script)}<|instruction_end|>"


@dataclass(frozen=True)
class Event:
    """One event as a client gets it."""

    id: str
    name: str
    data: dict[str, Any]


class Chat:
    """A client of one server, as a front end would be one."""

    def __init__(self, url: str, **options: Any) -> None:
        self.http = httpx.Client(
            base_url=f"{url}/api/v1", timeout=30, trust_env=False, verify=NO_TLS, **options
        )

    def new_session(self, **body: Any) -> str:
        answer = self.http.post("/sessions", json={"model": MODEL, **body})
        assert answer.status_code == 201, answer.text
        return answer.json()["session_id"]

    def messages(self, session_id: str) -> list[dict[str, Any]]:
        answer = self.http.get(f"/sessions/{session_id}/messages")
        assert answer.status_code == 200, answer.text
        return answer.json()["messages"]

    @contextmanager
    def stream(self, session_id: str, **body: Any) -> Iterator[Iterator[Event]]:
        """Open a stream; leaving the block closes the connection."""
        with self.http.stream("POST", f"/chat/{session_id}/stream", json=body) as answer:
            if answer.status_code != 200:
                answer.read()
            assert answer.status_code == 200, answer.text
            yield read_events(answer)

    def say(self, session_id: str, message: str | None = None, **body: Any) -> list[Event]:
        """Send a message and read the stream to its end."""
        with self.stream(session_id, message=message, **body) as events:
            return list(events)

    def reattach(self, session_id: str, after: str | None = None) -> list[Event] | None:
        """Pick the stream up again; None is 204."""
        params = {"after": after} if after else {}
        with self.http.stream("GET", f"/chat/{session_id}/stream", params=params) as answer:
            if answer.status_code == 204:
                return None
            assert answer.status_code == 200
            return list(read_events(answer))

    def cancel(self, session_id: str) -> httpx.Response:
        return self.http.post(f"/chat/{session_id}/cancel")

    def wait_for_tool(self, name: str) -> None:
        """Wait until there is a tool: of an MCP server that starts longer than a turn waits."""
        deadline = time.monotonic() + 60
        while self.http.get(f"/tools/{name}").status_code == 404:
            assert time.monotonic() < deadline, f"there is no tool {name!r}"
            time.sleep(0.05)


def read_events(answer: httpx.Response) -> Iterator[Event]:
    for event in EventSource(answer).iter_sse():
        if event.data:
            yield Event(event.id, event.event, json.loads(event.data))


def text_of(events: list[Event], name: str = "content_delta") -> str:
    return "".join(event.data["content"] for event in events if event.name == name)


def names_of(events: list[Event]) -> list[str]:
    return [event.name for event in events]


@dataclass
class Server:
    """A running server."""

    process: Process
    url: str
    data_dir: Path
    log: Path
    clients: list[Chat] = field(default_factory=list)

    def chat(self, **options: Any) -> Chat:
        self.clients.append(Chat(self.url, **options))
        return self.clients[-1]

    @property
    def web_processes(self) -> list[psutil.Process]:
        """The processes that answer requests."""
        parent = psutil.Process(self.process.pid)
        return [each for each in parent.children() if each.name() != zygote.NAME] or [parent]

    def chat_with(self, worker: psutil.Process) -> Chat:
        """Return a client whose connection is to this web process, until it was idle for 5 s."""
        others = [process for process in self.web_processes if process.pid != worker.pid]
        for process in others:
            process.suspend()
        try:
            client = self.chat()
            client.http.get("/health").raise_for_status()
        finally:
            for process in others:
                process.resume()
        return client

    def session_file(self, session_id: str) -> dict[str, Any]:
        return json.loads((self.data_dir / "chat_sessions" / f"{session_id}.json").read_text())

    def kill(self) -> None:
        """Kill every process at once, as a power cut of the machine's processes would."""
        family = [psutil.Process(self.process.pid)]
        family += family[0].children(recursive=True)
        for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped, nobody sees the others die
            for member in family:
                with suppress(psutil.NoSuchProcess):  # one that ended by itself, or with another
                    member.send_signal(number)
        self.process.wait(timeout=60)
        deadline = time.monotonic() + 60
        while any(lives(member) for member in family):  # until then, they hold the port
            assert time.monotonic() < deadline, "killed processes live on"
            time.sleep(0.005)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal and wait until the process has ended."""
        self.process.send_signal(number)
        self.process.wait(timeout=60)


def lives(process: psutil.Process) -> bool:
    """Whether the process runs; nobody may be there to reap an orphan."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


StartServer = Callable[..., Server]


MOCHI_SERVER = ("-m", "mochi_server", "--port", "0")


def launch(
    data_dir: Path, log: Path, *flags: str, program: Sequence[str] = MOCHI_SERVER, **variables: str
) -> Server:
    """Start a server, in test mode unless it is told of a model server."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MOCHI_", "DJANGO_"))}
    environment |= {"PYTHONPATH": str(ROOT), "MOCHI_DATA_DIR": str(data_dir)}
    environment |= {
        "MOCHI_BACKGROUND_WORKER": "false"
    }  # tests/functional/worker has it: it costs a second
    if "MOCHI_OLLAMA_HOST" not in variables:
        environment |= {"MOCHI_TEST_MODE": "true", "MOCHI_TEST_WORDS_PER_SECOND": "0"}
    with log.open("a") as stderr:
        process = start_process(
            [sys.executable, *program, *flags],
            env=environment | variables,
            cwd=data_dir,
            stdout=subprocess.PIPE,
            stderr=stderr,
            has_zygote="--workers" in flags or "MOCHI_WORKERS" in variables,
            forks_code=True,
        )
    assert process.stdout
    line = process.stdout.readline()
    match = LISTENING.match(line)
    if not match:
        process.kill()
        process.wait()
        process.stdout.close()
        pytest.fail(f"printed {line!r}; log: {log.read_text()[-2000:]}")
    return Server(process, match[1], data_dir, log)


def end(server: Server) -> None:
    if server.process.poll() is None:
        with suppress(psutil.NoSuchProcess):
            server.kill()
        server.process.wait(timeout=60)
    for client in server.clients:  # not before: a turn whose client leaves is cancelled
        client.http.close()
    if server.process.stdout:
        server.process.stdout.close()


@contextmanager
def starting(directory: Path) -> Iterator[StartServer]:
    servers: list[Server] = []
    data_dir = directory / "data"
    data_dir.mkdir()

    def start_server(*flags: str, **options: Any) -> Server:
        servers.append(launch(data_dir, directory / "log", *flags, **options))
        return servers[-1]

    yield start_server
    for server in servers:
        end(server)
    if servers:  # pytest shows what was printed when the test has failed
        print((directory / "log").read_text(errors="replace")[-LONGEST_LOG:])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartServer]:
    """Start servers on one data directory; they end with the test."""
    with starting(tmp_path) as start_server:
        yield start_server


@pytest.fixture(scope="module")
def start_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Start servers that end with the module."""
    with starting(tmp_path_factory.mktemp("servers")) as start_server:
        yield start_server


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Server:
    """Return one server for all tests of a module."""
    return start_once()


@pytest.fixture
def chat(server: Server) -> Chat:
    """Return a client of the module's server."""
    return server.chat()


@pytest.fixture
def script() -> Callable[..., str]:
    """Return how to write a message that scripts its answer."""
    return block
