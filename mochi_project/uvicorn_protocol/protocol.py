"""uvicorn's httptools protocol with bounds on headers, and with the envelope for bad requests.

The guard judges requests whose headers have arrived. Headers that never end don't get that far,
and httptools would keep them in memory, and their connection open, for ever: this is where they
are cut off.
"""

import asyncio
import json
import logging
from collections import deque

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from mochi_project.errors import messages
from mochi_project.errors.statuses import STATUS_OF_CODE, envelope
from mochi_project.exchange import Exchange
from mochi_project.guard.guard import MAX_HEAD_BYTES
from mochi_project.guard.refusal import LINGER_SECONDS
from mochi_project.uvicorn_protocol.upgrades import IgnoredUpgrades
from mochi_project.uvicorn_protocol.waiting_connections import WaitingConnections
from mochi_project.uvicorn_protocol.write_deadline import WriteDeadline

HEAD_SECONDS = 30.0
_VERSIONS = frozenset({"1.0", "1.1"})  # llhttp lets 0.9 and 2.0 pass


class BoundedHttpToolsProtocol(IgnoredUpgrades, WriteDeadline):
    """Refuses a request with 431 when its head (or trailers) passes 64 KiB without an end.

    One whose head takes too long is refused with 408, and a connection that says nothing is closed.
    That deadline is the server configuration's ``head_timeout``, in seconds. How many connections
    may wait for a request, or the rest of one, is up to its ``waiting_connections``.
    """

    _unfinished = 0  # bytes fed to the parser since it last completed a head or a piece of a body
    _refused = False
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        # uvicorn makes the line for its log before it finds out that nobody wants it.
        self.access_log = self.access_log and self.access_logger.isEnabledFor(logging.INFO)
        waiting: WaitingConnections | None = getattr(self.config, "waiting_connections", None)
        if waiting is None:
            waiting = WaitingConnections()
            vars(self.config)["waiting_connections"] = waiting
        self._waiting = waiting
        self._exchanges: deque[Exchange] = deque()  # the running one, then those pipelined behind
        self._waiting.add(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_waiting_for_head()
        self._waiting.discard(self.transport)
        super().connection_lost(exc)
        for exchange in self._exchanges:
            exchange.leave()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, unless this connection was refused already."""
        if self._refused:
            return
        self._unfinished += len(data)
        super().data_received(data)
        if not self._unfinished or self.transport.is_closing():
            return
        if self._unfinished > MAX_HEAD_BYTES:
            self._refuse(
                "HEADERS_TOO_LARGE",
                messages.headers_too_large(MAX_HEAD_BYTES),
            )
        elif self._head_timer is None and getattr(self.cycle, "response_complete", True):
            self._wait_for_head()  # uvicorn has ended its own wait for the next request

    def eof_received(self) -> None:
        """Tell a client that ends its side in the middle of a request: it may still read."""
        if self._refused or self.transport.is_closing():
            return
        if self._reads_body() and self._may_answer():
            self._answer("BAD_REQUEST", "The request announced a body that did not arrive whole.")
        elif self._unfinished and self._may_answer():
            self._answer("BAD_REQUEST", "The request ended in the middle of its headers.")

    def on_headers_complete(self) -> None:
        """Start the request."""
        if self.parser.get_http_version() not in _VERSIONS:
            raise ValueError("no version of HTTP that is spoken here")  # the parser's error, so 400
        self._unfinished = 0
        self._stop_waiting_for_head()
        cycle = self.cycle
        super().on_headers_complete()
        if self.cycle is not cycle:
            self._exchanges.append(Exchange(self.cycle))
        self.headers = []  # uvicorn would add trailers to the headers that it has handed out

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request's body."""
        self._unfinished = 0
        self._waiting.discard(self.transport)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is here already."""
        self._exchanges.popleft()
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._waiting.add(self.transport)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse("BAD_REQUEST", msg)

    def _wait_for_head(self) -> None:
        seconds = float(getattr(self.config, "head_timeout", HEAD_SECONDS))
        self._head_timer = self.loop.call_later(seconds, self._give_up, seconds)

    def _stop_waiting_for_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self, seconds: float) -> None:
        self._head_timer = None
        if self._unfinished and not self._refused and not self.transport.is_closing():
            self._refuse(
                "REQUEST_TIMEOUT", f"The request's headers took longer than {seconds:g} seconds."
            )
        else:
            self.transport.close()

    def _refuse(self, code: str, message: str) -> None:
        self._refused = True
        if not self._may_answer():
            self.transport.close()
            return
        self._answer(code, message)
        # Not at once: closing while the client still sends would reset the connection, and the
        # answer would be lost with it.
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _reads_body(self) -> bool:
        """Whether the current request waits for the rest of its body, and nothing was answered."""
        cycle = self.cycle
        if getattr(cycle, "response_complete", True):
            return False
        return cycle.more_body and not cycle.response_started and not self.pipeline

    def _may_answer(self) -> bool:
        """Whether no other answer is on its way, into which this one would be mixed.

        Whoever waits for the rest of the current request's body is told that there will be none.
        """
        if self._reads_body():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            return True
        return bool(getattr(self.cycle, "response_complete", True))

    def _answer(self, code: str, message: str) -> None:
        body = json.dumps(envelope(code, message)).encode()
        head = (
            b"content-type: application/json; charset=utf-8\r\n"
            b"x-content-type-options: nosniff\r\n"
            b"content-length: %d\r\n"
            b"connection: close\r\n\r\n"
        ) % len(body)
        self.transport.write(STATUS_LINE[STATUS_OF_CODE[code]] + head + body)
