"""Pools the connections to one server."""

import asyncio
import ssl
from collections.abc import Iterable

from models_app.ollama.http_connection import ConnectionLost, HttpConnection


class HttpPool:
    """A pool of connections to one server; idle ones are kept for a while.

    Args:
        host: The server's name or address.
        port: Its port.
        secure: Whether to use TLS.
        connect_timeout: The timeout of connecting, in seconds.
        keep_seconds: How long an idle connection is kept.
    """

    def __init__(
        self, host: str, port: int, *, secure: bool, connect_timeout: float, keep_seconds: float
    ) -> None:
        self._host = host
        self._port = port
        self._secure = secure
        self._connect_timeout = connect_timeout
        self._keep_seconds = keep_seconds
        # By the time they became idle: the oldest comes first, and is used last.
        self._idle: dict[HttpConnection, float] = {}
        self._used: set[HttpConnection] = set()
        self._tidying: asyncio.TimerHandle | None = None
        self._tls: ssl.SSLContext | None = None
        self._is_closed = False

    async def send(
        self, request: bytes, *, silence_timeout: float, rest: Iterable[bytes] = ()
    ) -> HttpConnection:
        """Send a request and wait for the head of its answer.

        A pooled connection that the server has closed meanwhile is replaced, unless a part of the
        answer arrived: the server can't have seen the request.

        Args:
            request: The request.
            silence_timeout: Seconds without a byte after which the answer counts as lost.
            rest: The rest of the request, sent chunk by chunk; iterated once per connection.

        Raises:
            OSError: No connection could be made.
            HttpError: The answer's head did not arrive.
        """
        while True:
            kept = self._take()
            connection = kept or await self._connect()
            self._used.add(connection)
            try:
                connection.send(request, silence_timeout=silence_timeout)
                if rest:
                    await connection.send_body(rest)
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

    def release(self, connection: HttpConnection) -> None:
        """Return a connection to the pool if it is reusable; close it otherwise."""
        if self._is_closed or not connection.is_reusable():
            self.drop(connection)
            return
        self._used.discard(connection)
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.time()
        if self._tidying is None:
            self._tidying = loop.call_later(self._keep_seconds, self._tidy)

    def drop(self, connection: HttpConnection) -> None:
        """Close a connection, which stops the server's work on its request."""
        self._used.discard(connection)
        connection.close()

    def close(self) -> None:
        """Close every connection, those in use included."""
        self._is_closed = True
        if self._tidying is not None:
            self._tidying.cancel()
        for connection in (*self._idle, *self._used):
            connection.close()
        self._idle.clear()
        self._used.clear()

    def _take(self) -> HttpConnection | None:
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.is_usable:
                return connection
        return None

    def _tidy(self) -> None:
        """Close connections that were idle too long. One timer serves all."""
        self._tidying = None
        loop = asyncio.get_running_loop()
        while self._idle:
            connection, since = next(iter(self._idle.items()))
            if loop.time() < since + self._keep_seconds:
                self._tidying = loop.call_at(since + self._keep_seconds, self._tidy)
                return
            del self._idle[connection]
            connection.close()

    async def _connect(self) -> HttpConnection:
        if self._secure and self._tls is None:
            # Reads the system's certificates.
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        async with asyncio.timeout(self._connect_timeout):
            _, connection = await asyncio.get_running_loop().create_connection(
                HttpConnection, self._host, self._port, ssl=self._tls
            )
        return connection
