"""What is measured: our server, the yardstick, and the upstream itself (the harness's own cost)."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from client import Connection

HERE = Path(__file__).parent
MESSAGE = "Tell me something about streams, at some length."
TURNS_PER_SESSION = 5
START_TIMEOUT = 30.0
SETTINGS = {"MOCHI_LOG_LEVEL": "WARNING", "MOCHI_MAX_ACTIVE_TURNS": "10000"}
TOOL = '''"""A tool that costs nothing itself."""

__all__ = ["echo"]
__destructive__ = []


def echo(text: str) -> str:
    """Say it once more.

    Args:
        text: What to say.
    """
    return text
'''
HELPERS = {"worker": "mochi_project.background.worker", "hosts": "tools_app.hosts.fork_server"}


class Server:
    """A server: the process that answers, and those that it started.

    All are on one core, where the system can. Only the one that answers is what costs per token,
    memory and threads are told of; what runs beside it has figures of its own.

    Attributes:
        folder: Where it runs, and keeps its data.
    """

    def __init__(self, command: Sequence[str], environment: dict[str, str], folder: Path) -> None:
        self.folder = folder
        self.popen = subprocess.Popen(
            command,
            env={**_clean_environment(), **environment},
            cwd=folder,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.process = psutil.Process(self.popen.pid)
        pin(self.popen.pid, core=0)

    def cpu_seconds(self) -> float:
        """User and system time that the process has used so far."""
        if sys.platform == "linux":  # its clock counts nanoseconds, psutil hundredths of a second
            return time.clock_gettime((~self.popen.pid << 3) | 2)
        times = self.process.cpu_times()
        return times.user + times.system

    def rss(self) -> int:
        """Resident memory of the process in bytes."""
        resident: int = self.process.memory_info().rss
        return resident

    def threads(self) -> int:
        """Threads of the process."""
        count: int = self.process.num_threads()
        return count

    def helpers(self, kind: str) -> list[psutil.Process]:
        """Return the processes of a kind: the background ``worker``'s or the tool ``hosts``'."""
        trees = [[child, *child.children(recursive=True)] for child in self.process.children()]
        return [
            one for tree in trees if HELPERS[kind] in " ".join(tree[0].cmdline()) for one in tree
        ]

    def memory_of(self, kind: str) -> int:
        """Return the memory of such processes; what they share is shared out where known."""
        infos = [one.memory_full_info() for one in self.helpers(kind)]
        return sum(getattr(info, "pss", info.rss) for info in infos)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Halt what runs beside it, so that nobody else is disturbed meanwhile."""
        halted = [one for kind in HELPERS for one in self.helpers(kind)]
        for one in halted:
            one.suspend()
        try:
            yield
        finally:
            for one in halted:
                with suppress(psutil.NoSuchProcess):
                    one.resume()

    def stop(self) -> None:
        """End the process and wait for it."""
        self.popen.terminate()
        try:
            self.popen.wait(15)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


class Subject:
    """Something that streams tokens over HTTP.

    Attributes:
        name: What the tables call it.
        marker: Bytes that are in its stream once for every token.
        health: The path that answers 200 once it works.
    """

    name: str
    marker = b"event: content_delta"
    health: str

    def __init__(self, url: str) -> None:
        self.url = url

    async def connect(self) -> Connection:
        """Open a connection."""
        return await Connection.open(self.url, self.marker)

    async def prepare(self, connection: Connection, model: str, replies: int) -> list[bytes]:
        """Return the requests for so many replies, with whatever must exist before."""
        raise NotImplementedError

    async def prepare_new(self, connection: Connection, model: str, replies: int) -> list[bytes]:
        """Return the requests for so many replies, before which nothing has to exist."""
        return await self.prepare(connection, model, replies)

    def command(self, port: int) -> list[str]:
        """Return the command that starts it."""
        raise NotImplementedError

    @classmethod
    def furnish(cls, folder: Path) -> None:
        """Put into its folder what it needs before it starts."""


class Ours(Subject):
    """``mochi-server`` as it comes: sessions, journal, guard, tools and background worker on.

    A session holds five turns, then the next.
    """

    name = "ours"
    health = "/api/v1/health"

    async def prepare(self, connection: Connection, model: str, replies: int) -> list[bytes]:
        requests: list[bytes] = []
        while len(requests) < replies:
            session = await connection.ask("POST", "/api/v1/sessions", {"model": model})
            turn = self.turn(connection, session["session_id"])
            requests += [turn] * min(TURNS_PER_SESSION, replies - len(requests))
        return requests

    async def prepare_new(self, connection: Connection, model: str, replies: int) -> list[bytes]:
        body = {"model": model, "message": MESSAGE}
        return [connection.request_bytes("POST", "/api/v1/chat/stream", body)] * replies

    def turn(self, connection: Connection, session_id: str) -> bytes:
        """Return the request for the next turn of a session."""
        path = f"/api/v1/chat/{session_id}/stream"
        return connection.request_bytes("POST", path, {"message": MESSAGE})

    def command(self, port: int) -> list[str]:
        script = shutil.which("mochi-server", path=str(Path(sys.executable).parent))
        start = [script] if script else [sys.executable, "-m", "mochi_server"]
        return [*start, "--port", str(port)]

    @classmethod
    def furnish(cls, folder: Path) -> None:
        (folder / "tools").mkdir()
        (folder / "tools" / "echoing.py").write_text(TOOL)


class ChatCompletions(Ours):
    """``mochi-server`` as a client of OpenAI's chat completions has it: nothing is saved."""

    name = "chat completions"
    marker = b'"delta":{"content":'
    path = "/v1/chat/completions"

    async def prepare(self, connection: Connection, model: str, replies: int) -> list[bytes]:
        return [connection.request_bytes("POST", self.path, self.body(model))] * replies

    async def prepare_new(self, connection: Connection, model: str, replies: int) -> list[bytes]:
        return await self.prepare(connection, model, replies)

    def body(self, model: str) -> dict[str, object]:
        """Return the body of a request."""
        messages = [{"role": "user", "content": MESSAGE}]
        return {"model": model, "messages": messages, "stream": True}


class Responses(ChatCompletions):
    """``mochi-server`` as a client of OpenAI's Responses has it: each begins a session."""

    name = "responses"
    marker = b"event: response.output_text.delta"
    path = "/v1/responses"

    def body(self, model: str) -> dict[str, object]:
        return {"model": model, "input": MESSAGE, "stream": True}


class OllamasProtocol(ChatCompletions):
    """``mochi-server`` as a client of Ollama has it: nothing is saved."""

    name = "ollama"
    marker = b'"done":false'
    path = "/ollama/api/chat"


PROTOCOLS = (Ours, ChatCompletions, Responses, OllamasProtocol)


class Yardstick(Subject):
    """R: FastAPI, sse-starlette, ``ollama.AsyncClient``; keeps nothing."""

    name = "R"
    health = "/health"

    async def prepare(self, connection: Connection, model: str, replies: int) -> list[bytes]:
        body = {"model": model, "message": MESSAGE}
        return [connection.request_bytes("POST", "/chat/stream", body)] * replies

    def command(self, port: int) -> list[str]:
        return [sys.executable, str(HERE / "yardstick.py"), "--port", str(port)]


class Direct(Subject):
    """The upstream without anything between."""

    name = "direct"
    marker = b'"done":false'
    health = "/api/version"

    async def prepare(self, connection: Connection, model: str, replies: int) -> list[bytes]:
        body = {"model": model, "messages": [{"role": "user", "content": MESSAGE}]}
        return [connection.request_bytes("POST", "/api/chat", body)] * replies


class Nginx(Direct):
    """nginx between client and model: bytes are passed on, and nobody looks at them."""

    name = "nginx"

    @staticmethod
    def is_installed() -> bool:
        """Return whether there is an nginx to measure."""
        return shutil.which("nginx") is not None

    def command(self, port: int) -> list[str]:
        return [sys.executable, str(HERE / "nginx_proxy.py"), "--port", str(port)]


def pin(pid: int, core: int) -> None:
    """Bind a process to a core, where there is a choice and the system can."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0) | {0})
        if len(cores) > 1 or core == 0:
            os.sched_setaffinity(pid, {core % (os.cpu_count() or 1)})


def free_port() -> int:
    """Return a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def upstream() -> Iterator[str]:
    """Run the scripted model server; the value is its URL."""
    popen = subprocess.Popen(
        [sys.executable, str(HERE / "upstream.py")], stdout=subprocess.PIPE, text=True
    )
    try:
        pin(popen.pid, core=1)
        assert popen.stdout is not None
        yield popen.stdout.readline().removeprefix("listening on ").strip()
    finally:
        popen.terminate()
        popen.wait()
        popen.stdout.close()


@contextmanager
def running(
    kind: type[Subject], upstream_url: str, **variables: str
) -> Iterator[tuple[Subject, Server, float]]:
    """Start a subject in an empty folder; also gives the seconds until it said it was healthy."""
    with TemporaryDirectory(prefix="mochi-bench-") as folder:
        kind.furnish(Path(folder))
        port = free_port()
        subject = kind(f"http://127.0.0.1:{port}")
        environment = {**SETTINGS, "MOCHI_OLLAMA_HOST": upstream_url, "MOCHI_DATA_DIR": folder}
        environment |= variables
        began = time.perf_counter()
        server = Server(subject.command(port), environment, Path(folder))
        try:
            wait_until_healthy(subject, server)
            yield subject, server, time.perf_counter() - began
        finally:
            server.stop()


def wait_until_healthy(subject: Subject, server: Server) -> None:
    """Ask for its health every two milliseconds until it answers 200."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        try:
            with urllib.request.urlopen(subject.url + subject.health, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            if server.popen.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{subject.name} did not start") from None
        time.sleep(0.002)


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MOCHI_")}
