"""HTTP/1.1 for answers that stream: one request on a connection, its body by whole network reads.

Written by hand because every token passes here. The protocol itself is httptools', the parser that
uvicorn uses; this is what stands around it: connections that are kept, silence, and a body that is
handed out as it comes, without a task or a timer for each piece.

Importing this module imports httptools, which the server has anyway.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping
from typing import cast

import httptools

MAX_HEAD_BYTES = 64 * 1024
# What is held for a reader who is slower than the model; then TCP holds it back.
BUFFERED_BYTES = 128 * 1024


class HttpError(Exception):
    """The connection, or what came over it, is of no use. The message says why."""


class ConnectionLost(HttpError):
    """The connection ended before the answer did."""


class Silent(HttpError):
    """Nothing came for too long."""


class NotHttp(HttpError):
    """What came is not HTTP."""


class HttpConnection(asyncio.Protocol):
    """One connection, which is used for one request after another.

    Attributes:
        status: The answer's status; 0 until its head is there.
        headers: The answer's headers by lower-case name, the last of equal ones.
        is_complete: Whether the answer's body has ended.
        received_any: Whether any byte of the answer came.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_complete = False
        self.received_any = False
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._pieces: deque[bytes] = deque()
        self._buffered = 0
        self._head_bytes = 0
        self._head_done = False
        self._keep_alive = False
        self._surplus = False
        self._paused = False
        self._failure: HttpError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._last_data = 0.0
        self._silence_timeout = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent on the connection."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: bytes, *, silence_timeout: float) -> None:
        """Send a request, head and body; its answer is then read with ``head`` and ``read``."""
        if self._transport is None:
            raise ConnectionLost("the connection is closed")
        self._parser = httptools.HttpResponseParser(self)
        self.status, self.headers, self._head_bytes = 0, {}, 0
        self.is_complete = self.received_any = self._head_done = False
        self._silence_timeout = silence_timeout
        self._last_data = self._loop.time()
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
            await self._news()

    async def read(self) -> bytes:
        """Return what of the body has come in since the last read; b"" at its end.

        Raises:
            HttpError: The rest will not come; what came before was returned first.
        """
        while not self._pieces:
            if self.is_complete:
                return b""
            if self._failure is not None:
                raise self._failure
            await self._news()
        if len(self._pieces) == 1:
            data = self._pieces.popleft()
        else:
            data = b"".join(self._pieces)
            self._pieces.clear()
        self._buffered = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._last_data = self._loop.time()
            self._transport.resume_reading()
        return data

    def may_be_kept(self) -> bool:
        """Whether the answer has ended as it should, and the connection can go on."""
        return self.is_complete and self._keep_alive and self._failure is None and self.is_usable

    def keep(self, seconds: float) -> None:
        """Let the connection wait for the next request, for so long."""
        self._stop_watching()
        self._expiry = self._loop.call_later(seconds, self.close)

    def take(self) -> None:
        """Use a connection that was kept."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def close(self) -> None:
        """Close the connection at once; the other side's writing fails."""
        self.take()
        self._stop_watching()
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take in what one read of the socket brought."""
        if self._parser is None or self.is_complete:
            self._fail(NotHttp("it sends more than was asked for"))
            return
        self._last_data = self._loop.time()
        self.received_any = True
        if not self._head_done:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(NotHttp("it wants to speak another protocol"))
        except httptools.HttpParserError as error:
            self._fail(NotHttp(str(error)))
        if self._surplus:
            self._fail(NotHttp("it sends more than was asked for"))
        if not self._head_done and self._head_bytes > MAX_HEAD_BYTES:
            self._fail(NotHttp("its headers are too long"))
        if self._buffered > BUFFERED_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """Close: a half-closed connection is of no use."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Note the end, which is also the end of a body that has no other."""
        self._transport = None
        self._stop_watching()
        if self._expiry is not None:
            self._expiry.cancel()
        if self._head_done and not self._has_length and error is None and not self._failure:
            self.is_complete = True
        if not self.is_complete and self._failure is None:
            reason = str(error) if error is not None and str(error) else "the connection closed"
            self._failure = ConnectionLost(reason)
        self._wake()

    # What the parser calls

    def on_message_begin(self) -> None:
        """Notice an answer to a question that nobody has asked."""
        self._surplus = self.is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Note the status; an interim answer is followed by the real one."""
        parser = self._parser
        if parser is None or self._surplus:
            return
        self.status = parser.get_status_code()
        self._keep_alive = parser.should_keep_alive()
        self._head_done = self.status >= 200

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body."""
        self._pieces.append(data)
        self._buffered += len(data)

    def on_message_complete(self) -> None:
        """Note the end of the body."""
        if self._head_done:
            self.is_complete = True
            self._stop_watching()
        else:
            self.headers = {}

    # Inside

    @property
    def _has_length(self) -> bool:
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    async def _news(self) -> None:
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, failure: HttpError) -> None:
        if self._failure is None:
            self._failure = failure
        self._stop_watching()
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def _look(self) -> None:
        """Fail if nothing came for too long; one timer an answer, not one a piece."""
        silent_until = self._last_data + self._silence_timeout
        if self._loop.time() < silent_until or self._paused:
            later = max(silent_until, self._loop.time() + 1.0 if self._paused else 0.0)
            self._watch = self._loop.call_at(later, self._look)
            return
        self._fail(Silent("nothing came for too long"))

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None


class HttpPool:
    """Connections to one server, kept for a while when they are not used.

    Args:
        host: The server's name or address.
        port: Its port.
        secure: Whether it is spoken to over TLS.
        connect_timeout: Seconds that making a connection may take.
        keep_seconds: How long an unused connection is kept.
    """

    def __init__(
        self, host: str, port: int, *, secure: bool, connect_timeout: float, keep_seconds: float
    ) -> None:
        self._host = host
        self._port = port
        self._secure = secure
        self._connect_timeout = connect_timeout
        self._keep_seconds = keep_seconds
        self._idle: list[HttpConnection] = []
        self._used: set[HttpConnection] = set()
        self._tls: ssl.SSLContext | None = None
        self._is_closed = False

    async def send(self, request: bytes, *, silence_timeout: float) -> HttpConnection:
        """Send a request and wait for the head of its answer.

        A kept connection that turns out to have been closed is replaced, once nothing of an answer
        has come: the server can't have seen the request.

        Raises:
            OSError: No connection could be made.
            HttpError: The answer's head did not come.
        """
        while True:
            kept = self._take()
            connection = kept or await self._connect()
            self._used.add(connection)
            try:
                connection.send(request, silence_timeout=silence_timeout)
                await connection.head()
            except ConnectionLost:
                self.drop(connection)
                if kept is not None and not connection.received_any:
                    continue
                raise
            except BaseException:
                self.drop(connection)
                raise
            return connection

    def give_back(self, connection: HttpConnection) -> None:
        """Keep a connection whose answer has ended as it should; close any other."""
        if self._is_closed or not connection.may_be_kept():
            self.drop(connection)
            return
        self._used.discard(connection)
        connection.keep(self._keep_seconds)
        self._idle.append(connection)

    def drop(self, connection: HttpConnection) -> None:
        """Close a connection, which ends what the server does for it."""
        self._used.discard(connection)
        connection.close()

    def close(self) -> None:
        """Close every connection, those in use included."""
        self._is_closed = True
        for connection in (*self._idle, *self._used):
            connection.close()
        self._idle.clear()
        self._used.clear()

    def _take(self) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            connection.take()
            if connection.is_usable:
                return connection
        return None

    async def _connect(self) -> HttpConnection:
        if self._secure and self._tls is None:
            # Reads the system's certificates.
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        async with asyncio.timeout(self._connect_timeout):
            _, connection = await asyncio.get_running_loop().create_connection(
                HttpConnection, self._host, self._port, ssl=self._tls
            )
        return connection


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
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
