"""Speaks HTTP/1.1 on one connection, for streamed answers that are read as they arrive.

Written by hand because every token passes here (docs/decisions/0017). httptools, the parser that
uvicorn uses, does the protocol; this module adds read timeouts, flow control, and a body that is
read without a task or a timer for each piece or request. Connections are read one by one, not those
of all streams together (docs/decisions/0109). ``http_pool`` keeps them.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import cast

import httptools

MAX_HEAD_BYTES = 64 * 1024
"""Limits a head, and within a body any run of bytes that is not body: trailers (which are kept like
headers) and chunk extensions."""
# Buffered for a reader that is slower than the model; beyond it, TCP holds the model back.
BUFFERED_BYTES = 128 * 1024
_LENGTHS = frozenset({"content-length", "transfer-encoding"})


class HttpError(Exception):
    """The connection is unusable. The message says why."""


class ConnectionLost(HttpError):
    """The connection ended before the answer did."""


class ReadTimeout(HttpError):
    """Nothing arrived within the timeout."""


class ProtocolError(HttpError):
    """The received bytes are not valid HTTP."""


class HttpConnection(asyncio.Protocol):
    """One connection, for one request after another.

    Attributes:
        status: The answer's status; 0 until its head is there.
        is_complete: Whether the answer's body has ended; True also before the first request.
        received_any: Whether any byte of the response was received.
        on_body: Buffers a piece of the body. The parser calls it for every token, so it is the
            list's own method; likewise ``on_header``.
    """

    __slots__ = (
        "_buffered",
        "_data_callback",
        "_failure",
        "_head_bytes",
        "_head_done",
        "_headers",
        "_is_sending",
        "_keep_alive",
        "_last_data",
        "_loop",
        "_may_write",
        "_no_wait",
        "_parser",
        "_paused",
        "_pieces",
        "_silence_timeout",
        "_surplus",
        "_timer",
        "_transport",
        "_waiter",
        "is_complete",
        "on_body",
        "on_header",
        "received_any",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0
        self.is_complete = True
        self.received_any = False
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        self._headers: dict[bytes, bytes] = {}
        self.on_body: Callable[[bytes], None] = self._pieces.append
        self.on_header: Callable[[bytes, bytes], None] = self._headers.__setitem__
        self._parser = httptools.HttpResponseParser(self)
        self._buffered = 0
        self._head_bytes = 0
        self._head_done = False
        self._keep_alive = False
        self._surplus = False
        self._paused = False
        self._may_write = True
        self._is_sending = False
        self._failure: HttpError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._data_callback: Callable[[], bool] | None = None
        self._no_wait: asyncio.Future[None] = self._loop.create_future()
        self._no_wait.set_result(None)
        self._last_data = 0.0
        self._silence_timeout = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_usable(self) -> bool:
        """Return whether the connection is open."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def headers(self) -> dict[str, str]:
        """The answer's headers by lower-case name; of repeated ones, the last."""
        return {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in self._headers.items()
        }

    def send(self, request: bytes, *, silence_timeout: float) -> None:
        """Send a request, head and body; its answer is then read with ``head`` and ``read``."""
        if self._transport is None:
            raise ConnectionLost("the connection is closed")
        self._headers.clear()
        self._data_callback = None
        self.status = self._head_bytes = self._buffered = 0
        self.is_complete = self.received_any = self._head_done = False
        self._last_data = self._loop.time()
        if self._timer is not None and silence_timeout < self._silence_timeout:
            self._stop_timer()  # it would fire too late
        self._silence_timeout = silence_timeout
        if self._timer is None:
            self._timer = self._loop.call_later(silence_timeout, self._check_silence)
        self._transport.write(request)

    async def send_body(self, pieces: Iterable[bytes]) -> None:
        """Send a large body after its head, each piece once the one before has nearly left.

        If the response arrives before the end, the rest is not sent. A failure is reported by
        ``head``.
        """
        self._is_sending = True
        for piece in pieces:
            if self._head_done:
                self._keep_alive = False  # the server still waits for the rest
            if self._head_done or self._transport is None or self._failure is not None:
                break
            self._transport.write(piece)
            self._last_data = self._loop.time()
            if self._may_write:
                await asyncio.sleep(0)  # others have their turn
            else:
                self._waiter = self._loop.create_future()
                await self._waiter
        self._is_sending = False

    async def head(self) -> None:
        """Wait for the answer's status and headers.

        Raises:
            HttpError: They did not arrive.
        """
        while not self._head_done:
            if self._failure is not None:
                raise self._failure
            self._waiter = self._loop.create_future()
            await self._waiter

    def readable(self) -> asyncio.Future[None]:
        """Return a future that is done once ``read_available`` has something to return or raise."""
        if self._pieces or self.is_complete or self._failure is not None:
            return self._no_wait
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def read_available(self) -> bytes:
        """Return the bytes of the body that have arrived; b"" at its end.

        Call it once ``readable`` is done.

        Raises:
            HttpError: The rest will not arrive; everything before was returned.
        """
        pieces = self._pieces
        if not pieces:
            if self._failure is not None and not self.is_complete:
                raise self._failure
            return b""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._buffered = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._last_data = self._loop.time()
            self._transport.resume_reading()
        return data

    def set_data_callback(self, callback: Callable[[], bool]) -> None:
        """Call ``callback`` when data arrives, for the rest of this answer (docs/decisions/0019).

        It may call ``read_available``, and returns False to wake the waiter of ``readable``, which
        may then find nothing to read. The end of the response always wakes the waiter.
        """
        self._data_callback = callback

    async def read(self) -> bytes:
        """Wait for the next bytes of the body and return them; b"" at its end."""
        await self.readable()
        return self.read_available()

    def is_reusable(self) -> bool:
        """Return whether the answer was read to its end and the server keeps the connection."""
        is_read = self.is_complete and not self._pieces
        return is_read and self._keep_alive and self._failure is None and self.is_usable

    def close(self) -> None:
        """Close the connection at once, so that the server's next write fails."""
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes of one network read."""
        if self.is_complete:
            self._fail(ProtocolError("it sends more than was requested"))
            return
        self._last_data = self._loop.time()
        self.received_any = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(ProtocolError("it wants to speak another protocol"))
        except httptools.HttpParserError as error:
            self._fail(ProtocolError(str(error)))
        if self._surplus:
            self._fail(ProtocolError("it sends more than was requested"))
        if self._pieces:  # of the body; ``BUFFERED_BYTES`` limits them
            self._head_bytes = 0
        else:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self.is_complete:
                self._fail(ProtocolError("its headers or trailers are too long"))
        self._buffered += len(data)
        if self._buffered > BUFFERED_BYTES:
            self._pause()
        if self._waiter is not None and not self._waiter.done():
            self._notify()

    def eof_received(self) -> bool:
        """Close: a half-closed connection is of no use."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Note the end, which also ends a body without a length."""
        self._transport = None
        self._stop_timer()
        if self._head_done and error is None and self._failure is None:
            self.is_complete = self.is_complete or _LENGTHS.isdisjoint(self.headers)
        if not self.is_complete and self._failure is None:
            reason = str(error) if error is not None and str(error) else "the connection closed"
            self._failure = ConnectionLost(reason)
        self._wake()

    def pause_writing(self) -> None:
        """Pause ``send_body``."""
        self._may_write = False

    def resume_writing(self) -> None:
        """Resume ``send_body``, without waking a task that waits for the response."""
        self._may_write = True
        if self._is_sending:
            self._wake()

    # Called by the parser

    def on_message_begin(self) -> None:
        """Detect an answer without a request."""
        self._surplus = self.is_complete

    def on_headers_complete(self) -> None:
        """Note the status; an interim answer is followed by the real one."""
        if self._surplus:
            return
        self.status = self._parser.get_status_code()
        self._keep_alive = self._parser.should_keep_alive()
        self._head_done = self.status >= 200
        if self._head_done:
            self._wake()

    def on_message_complete(self) -> None:
        """Note the end of the body."""
        if self._head_done:
            self.is_complete = True
        else:
            self._headers.clear()

    def _notify(self) -> None:
        callback = self._data_callback
        if self.is_complete or (self._pieces and (callback is None or not callback())):
            self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _pause(self) -> None:
        if self._pieces and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _fail(self, failure: HttpError) -> None:
        if self._failure is None:
            self._failure = failure
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def _check_silence(self) -> None:
        """Fail if nothing arrived in time. One timer serves many chunks and responses."""
        self._timer = None
        if self.is_complete:
            return
        silent_until = self._last_data + self._silence_timeout
        if self._loop.time() < silent_until or self._paused:
            later = max(silent_until, self._loop.time() + 1.0 if self._paused else 0.0)
            self._timer = self._loop.call_at(later, self._check_silence)
            return
        self._fail(ReadTimeout("nothing came for too long"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def request_bytes(
    method: str, target: str, *, host: str, headers: Mapping[str, str], body: bytes = b""
) -> bytes:
    """Return the bytes of a request, head and body.

    Args:
        method: ``GET`` or ``POST``.
        target: Path and query, percent-encoded.
        host: The ``Host`` header.
        headers: Further headers, without control characters.
        body: The body.
    """
    head = request_head(method, target, host=host, headers=headers)
    return with_body(head, body) if body or method == "POST" else head + b"\r\n"


def request_head(method: str, target: str, *, host: str, headers: Mapping[str, str]) -> bytes:
    """Return the part of a request that does not depend on its body; see ``request_bytes``."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, ""]).encode("latin-1")


def with_headers(head: bytes, headers: Mapping[str, str]) -> bytes:
    """Append headers, without control characters, to a head that ``request_head`` made."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return head + lines.encode("latin-1")


def with_body(head: bytes, body: bytes) -> bytes:
    """Append a body, with its length, to a head that ``request_head`` made."""
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


def with_length(head: bytes, length: int) -> bytes:
    """Complete a head that ``request_head`` made with the length of the body that follows."""
    return b"%bContent-Length: %d\r\n\r\n" % (head, length)
