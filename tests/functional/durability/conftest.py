"""A model server that does to its clients what a test tells it, and servers in front of it."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

MODEL = "qwen3:14b"
MODELS = {"models": [{"name": MODEL, "model": MODEL, "size": 1, "digest": "0", "details": {}}]}
MODEL_CARD = {
    "details": {},
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
    "capabilities": ["completion", "tools"],
}
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
)
LAST_LINE = {"done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 3}

Behaviour = Callable[["Answer"], object]


class Answer:
    """One request to chat, and the socket to answer it on."""

    def __init__(self, connection: socket.socket, messages: list[dict[str, Any]]) -> None:
        self.socket = connection
        self.messages = messages
        self.closed_at: float | None = None

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def begin(self) -> None:
        self.raw(HEAD)

    def chunk(self, data: bytes) -> None:
        self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    def say(self, *texts: str, **last: Any) -> None:
        for text in texts:
            message = {"role": "assistant", "content": text}
            self.chunk(
                json.dumps({"model": "m", "message": message, "done": False}).encode() + b"\n"
            )

    def finish(self) -> None:
        message = {"role": "assistant", "content": ""}
        self.chunk(json.dumps({"model": "m", "message": message, **LAST_LINE}).encode() + b"\n")
        self.raw(b"0\r\n\r\n")

    def wait_until_closed(self) -> None:
        """Wait until the client closed the connection."""
        self.socket.settimeout(60)
        while self.socket.recv(4096):
            pass


class Upstream:
    """Speaks enough of Ollama's protocol to be asked, and then behaves as it is told.

    Attributes:
        behave: What the next answers do.
        answers: Every chat request so far.
    """

    def __init__(self) -> None:
        self.behave: Behaviour = lambda answer: None
        self.answers: list[Answer] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._open: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for connection in list(self._open):
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while (request := _read_request(connection)) is not None:
                path, body = request
                if path != "/api/chat":
                    _send_json(connection, MODELS if path == "/api/tags" else MODEL_CARD)
                    continue
                answer = Answer(connection, json.loads(body)["messages"])
                self.answers.append(answer)
                try:
                    answer.begin()
                    self.behave(answer)
                finally:
                    answer.closed_at = time.monotonic()
                break
        except OSError:
            pass  # the client left, or the test is over
        finally:
            self._open.discard(connection)
            connection.close()


def _read_request(connection: socket.socket) -> tuple[str, bytes] | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for header in head.split(b"\r\n")[1:]:
        name, _, value = header.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        body += connection.recv(65536)
    return head.split(b" ")[1].decode(), body


def _send_json(connection: socket.socket, value: Any) -> None:
    body = json.dumps(value).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    """Return a model server for all tests of a module."""
    upstream = Upstream()
    yield upstream
    upstream.close()


@pytest.fixture
def frames() -> Callable[[Any, str, str | None], bytes | None]:
    """Return how to pick up a stream and get its bytes, without what is not part of an event."""

    def read(chat: Any, session_id: str, after: str | None = None) -> bytes | None:
        headers = {"Last-Event-ID": after} if after else {}
        answer = chat.http.get(f"/chat/{session_id}/stream", headers=headers)
        assert answer.status_code in {200, 204}, answer.text
        return events_of(answer.content) if answer.status_code == 200 else None

    return read


def events_of(received: bytes) -> bytes:
    """Return the frames of events in what was received, byte for byte."""
    frames = received.replace(b"retry: 2000\n", b"").split(b"\n\n")
    assert frames.pop() == b""
    return b"".join(frame + b"\n\n" for frame in frames if frame.startswith(b"id: "))


@pytest.fixture
def patched() -> dict[str, str]:
    """Return the variables with which servers import ``patched/sitecustomize.py``."""
    root, patches = Path(__file__).parents[3], Path(__file__).with_name("patched")
    return {"PYTHONPATH": os.pathsep.join([str(root), str(patches)])}


def wait_until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Ask again until the condition holds, and return what it said."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)
    return value


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Return how to wait for a condition."""
    return wait_until


@pytest.fixture
def kill() -> Callable[..., None]:
    """Return how to kill processes, which waits until they are gone."""

    def kill_all(*processes: psutil.Process) -> None:
        for process in processes:
            process.kill()
        psutil.wait_procs(processes, timeout=60)

    return kill_all
