"""Limits headers in uvicorn's httptools protocol, and answers bad requests with the envelope.

The guard checks requests only after their headers have arrived. Headers that never end would be
kept in memory by httptools, with an open connection, so they are limited here.
"""

# private: HttpToolsProtocol.{cycle,parser,pipeline,headers,scope,url,flow,server_state} and
# RequestResponseCycle.{more_body,response_started,response_complete,disconnected,message_event}.
# Price: 4 us a request. Why: uvicorn bounds neither heads nor connections that wait
# (docs/decisions/0024, 0040); tests/functional/edge runs with the newest uvicorn.

import asyncio
import json
from collections import deque

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from mochi_project.errors import messages
from mochi_project.errors.statuses import STATUS_OF_CODE, envelope
from mochi_project.exchange import Exchange
from mochi_project.guard.refusal import LINGER_SECONDS, MAX_HEAD_BYTES
from mochi_project.uvicorn_protocol.upgrades import IgnoredUpgrades
from mochi_project.uvicorn_protocol.write_deadline import WriteDeadline

FIRST_REQUEST_SECONDS = 0.75
"""The time for a new connection to send its first request while the server is stopping.

It is less than the second after which the remaining connections are closed
(``graceful_stop.py``)."""

_VERSIONS = frozenset({"1.0", "1.1"})  # llhttp lets 0.9 and 2.0 pass


class BoundedHttpToolsProtocol(IgnoredUpgrades, WriteDeadline):
    """Refuses a request with 431 if its head (or trailers) exceeds 64 KiB.

    A head that takes too long is refused with 408, and an idle connection is closed. When the
    server is stopping, the first request of a new connection is still answered, with 503.
    """

    _unfinished = 0  # bytes fed to the parser since it last completed a head or a piece of a body
    _refused = False
    _server_stops = False
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start waiting for the first request."""
        super().connection_made(transport)
        self._first_request_until = self.loop.time() + FIRST_REQUEST_SECONDS
        self._waiting = self.config.waiting_connections
        self._exchanges: deque[Exchange] = deque()  # the running one, then those pipelined behind
        self._waiting.add(transport)
        self._wait_for_head()
        if self.config.server_stops:  # it was accepted before the listeners were closed
            self.shutdown()

    def shutdown(self) -> None:
        """Close the connection after its current request, or immediately if it has none.

        A client that has just connected or sent part of a head can't know that the server is
        stopping: it gets a moment to send the request, which the guard refuses.
        """
        seconds = self._seconds_for_request()
        if seconds <= 0 or self._refused:
            super().shutdown()
            return
        self._server_stops = True
        self.loop.call_later(seconds, super().shutdown)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers."""
        self._stop_waiting_for_head()
        self._waiting.discard(self.transport)
        super().connection_lost(exc)
        for exchange in self._exchanges:
            exchange.note_lost()
            self.config.disconnects.tell(exchange.disconnect)

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
        """Answer a client that half-closes in the middle of a request: it may still read."""
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
            self._first_request_until = 0.0
            self._exchanges.append(Exchange(self.cycle, server_stops=self._server_stops))
            if self._server_stops:
                super().shutdown()  # the connection ends with this request
        self.headers = []  # uvicorn would add trailers to the headers that it has handed out

    def on_body(self, body: bytes) -> None:
        """Handle a piece of a body."""
        self._unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request's body."""
        self._unfinished = 0
        self._waiting.discard(self.transport)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has arrived already."""
        self._exchanges.popleft().end()
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._waiting.add(self.transport)

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP."""
        self._refuse("BAD_REQUEST", msg)

    def _seconds_for_request(self) -> float:
        """Return how long a closing connection still waits for a request."""
        if not getattr(self.cycle, "response_complete", True):
            return 0
        if self._unfinished:
            return FIRST_REQUEST_SECONDS
        return self._first_request_until - self.loop.time()

    def _wait_for_head(self) -> None:
        seconds = self.config.head_timeout
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
        # Not immediately: closing while the client is sending would reset the connection and lose
        # the response.
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _reads_body(self) -> bool:
        """Return whether the current request is unanswered and waits for more of its body."""
        cycle = self.cycle
        if getattr(cycle, "response_complete", True):
            return False
        return cycle.more_body and not cycle.response_started and not self.pipeline

    def _may_answer(self) -> bool:
        """Return whether a response can be sent without mixing it into another one.

        Disconnects an application that waits for the rest of the current request's body.
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
