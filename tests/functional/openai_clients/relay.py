"""Passes requests of a client on to a server, and keeps them: how often does it ask, and how?"""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

_OF_ONE_CONNECTION = {"connection", "content-length", "transfer-encoding", "host"}


class Passed(NamedTuple):
    """A request and the status of its answer."""

    method: str
    path: str
    status: int
    body: Any


@contextmanager
def relay(url: str) -> Iterator[tuple[str, list[Passed]]]:
    """Yield the address of a relay to a server, and the requests that it has passed on."""
    passed: list[Passed] = []
    server = urlsplit(url)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            connection = http.client.HTTPConnection(server.hostname or "", server.port, timeout=60)
            connection.request(self.command, self.path, body, _kept(self.headers.items()))
            answer = connection.getresponse()
            data = answer.read()
            connection.close()
            sent = json.loads(body) if body else None
            passed.append(Passed(self.command, self.path, answer.status, sent))
            self.send_response(answer.status)
            for name, value in _kept(answer.getheaders()).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as here:
        thread = threading.Thread(target=here.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{here.server_port}", passed
        finally:
            here.shutdown()
            thread.join()


def _kept(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _OF_ONE_CONNECTION}
