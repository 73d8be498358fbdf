"""HTTP/1.1 for answers that stream: one request on a connection, its body by whole network reads.

Written by hand because every token passes here. The protocol itself is httptools', the parser that
uvicorn uses; this is what stands around it: silence, and a body that is handed out as it comes,
without a task or a timer for each piece, or for each request. ``http_pool`` keeps the connections.

Importing this module imports httptools, which the server has anyway.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

import httptools

MAX_HEAD_BYTES = 64 * 1024
"""Of a head; and, within a body, of what follows each other without being body: trailers, which are
kept like headers, and extensions of chunks."""
# What is held for a reader who is slower than the model; then TCP holds it back.
BUFFERED_BYTES = 128 * 1024
_LENGTHS = frozenset({"content-length", "transfer-encoding"})


class HttpError(Exception):
    """The connection, or what came over it, is of no use. The message says why."""


class ConnectionLost(HttpError):
    """The connection ended before the answer did."""


class ReadTimeout(HttpError):
    """Nothing came for too long."""


class ProtocolError(HttpError):
    """What came is not HTTP."""


class HttpConnection(asyncio.Protocol):
    """One connection, which is used for one request after another.

    Attributes:
        status: The answer's status; 0 until its head is there.
        is_complete: Whether the answer's body has ended; True also before the first request.
        received_any: Whether any byte of the answer came.
        on_body: Keeps a piece of the body. The parser calls it for every token, so it is the
            list's own method; likewise ``on_header``.
    """

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
        self._failure: HttpError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._taker: Callable[[], bool] | None = None
        self._no_wait: asyncio.Future[None] = self._loop.create_future()
        self._no_wait.set_result(None)
        self._last_data = 0.0
        self._silence_timeout = 0.0
        self._watch: asyncio.TimerHandle | None = None

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent on the connection."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def headers(self) -> dict[str, str]:
        """The answer's headers by lower-case name, the last of equal ones."""
        return {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in self._headers.items()
        }

    def send(self, request: bytes, *, silence_timeout: float) -> None:
        """Send a request, head and body; its answer is then read with ``head`` and ``read``."""
        if self._transport is None:
            raise ConnectionLost("the connection is closed")
        self._headers.clear()
        self._taker = None
        self.status = self._head_bytes = self._buffered = 0
        self.is_complete = self.received_any = self._head_done = False
        self._last_data = self._loop.time()
        if self._watch is not None and silence_timeout < self._silence_timeout:
            self._stop_watching()  # it would look too late
        self._silence_timeout = silence_timeout
        if self._watch is None:
            self._watch = self._loop.call_later(silence_timeout, self._look)
        self._transport.write(request)

    async def head(self) -> None:
        """Wait for the answer's status and headers.

        Raises:
            HttpError: They don't come.
        """
        while not self._head_done:
            if self._failure is not None:
                raise self._failure
            self._waiter = self._loop.create_future()
            await self._waiter

    def news(self) -> asyncio.Future[None]:
        """Return a future that is done once there is something to ``take``."""
        if self._pieces or self.is_complete or self._failure is not None:
            return self._no_wait
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def take(self) -> bytes:
        """Once there is ``news``: return what of the body was not taken yet; b"" at its end.

        Raises:
            HttpError: The rest will not come; what came before was returned first.
        """
        if not self._pieces:
            if self._failure is not None and not self.is_complete:
                raise self._failure
            return b""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._buffered = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._last_data = self._loop.time()
            self._transport.resume_reading()
        return data

    def hand_to(self, taker: Callable[[], bool]) -> None:
        """Call ``taker`` instead of waking who waits for news, for the rest of this answer.

        It may ``take`` what there is. It returns False if who waits is to be woken all the same,
        who then may find nothing to take. The end of the answer always wakes.
        """
        self._taker = taker

    async def read(self) -> bytes:
        """Wait until there is something to ``take``, and return that."""
        await self.news()
        return self.take()

    def may_be_kept(self) -> bool:
        """Whether the answer has ended as it should, and the connection can go on."""
        is_read = self.is_complete and not self._pieces
        return is_read and self._keep_alive and self._failure is None and self.is_usable

    def close(self) -> None:
        """Close the connection at once; the other side's writing fails."""
        self._stop_watching()
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take in what one read of the socket brought."""
        if self.is_complete:
            self._fail(ProtocolError("it sends more than was asked for"))
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
            self._fail(ProtocolError("it sends more than was asked for"))
        if self._pieces:  # of the body; while they wait, no more than ``BUFFERED_BYTES`` is read
            self._head_bytes = 0
        else:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self.is_complete:
                self._fail(ProtocolError("its headers or trailers are too long"))
        self._buffered += len(data)
        if self._buffered > BUFFERED_BYTES:
            self._pause()
        if self._waiter is not None and not self._waiter.done():
            self._tell_news()

    def eof_received(self) -> bool:
        """Close: a half-closed connection is of no use."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Note the end, which is also the end of a body that has no other."""
        self._transport = None
        self._stop_watching()
        if self._head_done and error is None and self._failure is None:
            self.is_complete = self.is_complete or _LENGTHS.isdisjoint(self.headers)
        if not self.is_complete and self._failure is None:
            reason = str(error) if error is not None and str(error) else "the connection closed"
            self._failure = ConnectionLost(reason)
        self._wake()

    # What the parser calls

    def on_message_begin(self) -> None:
        """Notice an answer to a question that nobody has asked."""
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

    # Inside

    def _tell_news(self) -> None:
        if self.is_complete or (self._pieces and (self._taker is None or not self._taker())):
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
        self._stop_watching()
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def _look(self) -> None:
        """Fail if nothing came for too long. One timer serves many pieces and many answers."""
        self._watch = None
        if self.is_complete:
            return
        silent_until = self._last_data + self._silence_timeout
        if self._loop.time() < silent_until or self._paused:
            later = max(silent_until, self._loop.time() + 1.0 if self._paused else 0.0)
            self._watch = self._loop.call_at(later, self._look)
            return
        self._fail(ReadTimeout("nothing came for too long"))

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None


def request_bytes(
    method: str, target: str, *, host: str, headers: Mapping[str, str], body: bytes = b""
) -> bytes:
    """Return a request as it is sent, head and body.

    Args:
        method: ``GET`` or ``POST``.
        target: Path and query, percent-encoded.
        host: The ``Host`` header.
        headers: Further headers, without control characters.
        body: The body; its length is told.
    """
    head = request_head(method, target, host=host, headers=headers)
    return with_body(head, body) if body or method == "POST" else head + b"\r\n"


def request_head(method: str, target: str, *, host: str, headers: Mapping[str, str]) -> bytes:
    """Return the lines of a request that are the same whatever its body. As ``request_bytes``."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, ""]).encode("latin-1")


def with_body(head: bytes, body: bytes) -> bytes:
    """Return what ``request_head`` returned, with a body."""
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
