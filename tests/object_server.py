"""An object store for tests: moto's S3 in a thread, one request at a time, a bucket for each test.

moto checks conditions and writes without a lock in between; the lock makes it as atomic as a real
store. Between the wire and moto a test may put what goes wrong: see ``ObjectServer.meddle``.
"""

import secrets
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import run_wsgi_app

from cluster_app.objects.store import ObjectStore

REGION = "us-east-1"
KEYS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_REGION": REGION}
"""The environment of a process that uses the server."""


class Request(msgspec.Struct, frozen=True):
    """A request as it came in."""

    method: str
    path: str
    query: str
    if_match: str | None = None
    if_none_match: str | None = None

    @property
    def writes(self) -> bool:
        """Whether it writes an object, or removes some."""
        return self.method in {"PUT", "POST", "DELETE"} and self.path.count("/") > 1


class Answer(msgspec.Struct, frozen=True):
    """What a request is answered."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes


Serve = Callable[..., Answer]
"""Has moto do what the request says, but for the headers that are named: ``IF_MATCH``, say."""
Meddle = Callable[[Request, Serve], Answer | None]
"""Returns the answer of a request, or None to close the connection without any."""


def refusal(status: str) -> Answer:
    """Return an answer with nothing but a status, as "503 Slow Down"."""
    return Answer(status, [("Content-Length", "0")], b"")


class ObjectServer:
    """moto behind a lock, on a port of its own.

    Attributes:
        url: Where it listens.
        requests: All requests that it got, in order.
    """

    def __init__(self) -> None:
        # Takes 2 s, which not every test needs.
        from moto.server import (  # noqa: PLC0415
            DomainDispatcherApplication,
            create_backend_app,
        )

        self._moto = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.RLock()
        self._meddle: Meddle | None = None
        self.requests: list[Request] = []
        self._server = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=_Handler
        )
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def make_bucket(self) -> str:
        """Make a bucket, and return the URL of sessions in it."""
        name = f"b{secrets.token_hex(8)}"
        make = urllib.request.Request(f"{self.url}/{name}", method="PUT")
        with urllib.request.urlopen(make):
            pass
        return f"s3://{name}/some/prefix?endpoint={self.url}&region={REGION}"

    def forget_requests(self) -> None:
        self.requests.clear()

    @contextmanager
    def meddled(self, meddle: Meddle) -> Iterator[None]:
        """Let requests go through ``meddle`` for a while."""
        self._meddle = meddle
        try:
            yield
        finally:
            self._meddle = None

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        request = Request(
            environ["REQUEST_METHOD"],
            environ["PATH_INFO"],
            environ["QUERY_STRING"],
            environ.get("HTTP_IF_MATCH"),
            environ.get("HTTP_IF_NONE_MATCH"),
        )
        meddle = self._meddle or (lambda _request, serve: serve())
        self.requests.append(request)
        answer = meddle(request, lambda *ignored: self._serve(environ, ignored))
        if answer is None:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError
        start(answer.status, answer.headers)
        return [answer.body]

    def _serve(self, environ: dict[str, Any], ignored: Sequence[str]) -> Answer:
        for header in ignored:
            environ.pop(f"HTTP_{header}", None)
        with self._lock:
            body, status, headers = run_wsgi_app(self._moto, environ, buffered=True)
            return Answer(status, list(headers), b"".join(body))


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(
        self,
        type: str,  # noqa: A002
        message: str,
        *args: Any,
    ) -> None:
        pass


@pytest.fixture(scope="session")
def object_server() -> Iterator[ObjectServer]:
    """Return the object store of this process of the suite."""
    server = ObjectServer()
    yield server
    server.stop()


@pytest.fixture
def object_url(object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a bucket of the test's own, to which the environment has the keys."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    object_server.forget_requests()
    return object_server.make_bucket()


@pytest.fixture
def object_store(object_url: str) -> ObjectStore:
    """Return the objects of a bucket of the test's own."""
    return ObjectStore(object_url)
