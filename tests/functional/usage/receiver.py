"""A receiver of OTLP over HTTP, as a collector is one, and other servers of a test's own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.unit.usage_app.traces.servers import McpServer, mcp_server


class Receiver:
    """What has been received: spans, and the resources and headers they came with.

    Attributes:
        url: What ``OTEL_EXPORTER_OTLP_ENDPOINT`` is set to.
    """

    def __init__(self) -> None:
        self.resources: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._spans: list[Span] = []
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.take(self.path, dict(self.headers.items()), body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self._changed:
            self.headers.append({**headers, ":path": path})
            for of_resource in request.resource_spans:
                self.resources.append(values(of_resource.resource.attributes))
                for scope in of_resource.scope_spans:
                    self._spans += scope.spans
            self._changed.notify_all()

    def trace_with(self, is_there: Callable[[Span], bool]) -> list[Span]:
        """Wait for a span, and return all that have come of its trace."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(map(is_there, self._spans)), timeout=60)
            found = next(span for span in self._spans if is_there(span))
            return [span for span in self._spans if span.trace_id == found.trace_id]

    def turn(self, session_id: str) -> list[Span]:
        """Wait for the first turn of a session to end; return the spans of its trace."""

        def is_turn(span: Span) -> bool:
            attributes = values(span.attributes)
            return (
                "mochi.turn.state" in attributes
                and attributes["gen_ai.conversation.id"] == session_id
            )

        return self.trace_with(is_turn)


def values(attributes: Any) -> dict[str, Any]:
    """Return attributes of OTLP as a dict; of lists and the like, nothing."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value") or "string_value")
        for each in attributes
    }


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Receive spans until the block is left."""
    receiver = Receiver()
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.stop()


@contextmanager
def serving_mcp() -> Iterator[McpServer]:
    """Run an MCP server over HTTP, in a thread, until the block is left."""
    ready: asyncio.Queue[Any] | None = None
    started, served = threading.Event(), []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        nonlocal ready
        ready = asyncio.Queue()
        async with mcp_server() as server:
            served.append(server)
            started.set()
            await ready.get()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(60)
    try:
        yield served[0]
    finally:
        assert ready is not None
        loop.call_soon_threadsafe(ready.put_nowait, None)
        thread.join()
        loop.close()
