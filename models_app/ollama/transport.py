"""Sends chat requests to Ollama over pooled connections; responses are read in whole network reads.

httpx, which the ollama library is built on, costs a millisecond before the first token and most
of the processor time after it; so chat goes this way, and the library does the rest
(docs/decisions/0017).
"""

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

from models_app.errors import ModelError
from models_app.inserted_files import LargeBody
from models_app.model_calls import CallHeaders
from models_app.ollama import errors
from models_app.ollama.host import CONNECT_SECONDS, OllamaHost
from models_app.ollama.http_connection import (
    HttpConnection,
    HttpError,
    ProtocolError,
    ReadTimeout,
    request_bytes,
    request_head,
    with_body,
    with_headers,
    with_length,
)
from models_app.ollama.http_pool import HttpPool

PING_SECONDS = 1.0
_CHAT = "/api/chat"
PATHS = (_CHAT, "/api/embed", "/api/embeddings")
_IDLE_CONNECTION_SECONDS = 30.0
_MAX_ERROR_BYTES = 64 * 1024
_MAX_LIST_BYTES = 4 * 1024 * 1024
_ERROR_BODY_SECONDS = 5.0
_LAST_BYTES_SECONDS = 0.05
_DEFAULT_PORTS = {"http": 80, "https": 443}


class OllamaTransport:
    """A pool of connections to one Ollama server. Belongs to the event loop it was made in.

    Args:
        host: The server's address.
        silence_timeout: Seconds without a byte after which an answer counts as lost.
        connect_timeout: The timeout of connecting, in seconds.
        authorization: An ``Authorization`` header, if the host has no credentials of its own.
        call_headers: Returns further headers of a chat request; None for none.
    """

    def __init__(
        self,
        host: OllamaHost,
        *,
        silence_timeout: float,
        connect_timeout: float = CONNECT_SECONDS,
        authorization: str | None = None,
        call_headers: CallHeaders | None = None,
    ) -> None:
        parts = urlsplit(host.url)
        self._call_headers = call_headers
        self._host = host
        self._silence_timeout = silence_timeout
        headers = {
            "User-Agent": "mochi-server",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            **({} if authorization is None else {"Authorization": authorization}),
            **host.headers,
        }
        self._ping = request_bytes(
            "GET", f"{parts.path}/api/version", host=parts.netloc, headers=headers
        )
        self._list_running = request_bytes(
            "GET", f"{parts.path}/api/ps", host=parts.netloc, headers=headers
        )
        headers["Content-Type"] = "application/json"
        self._heads = {
            path: request_head("POST", f"{parts.path}{path}", host=parts.netloc, headers=headers)
            for path in PATHS
        }
        self._pool = HttpPool(
            parts.hostname or "127.0.0.1",
            parts.port or _DEFAULT_PORTS[parts.scheme],
            secure=parts.scheme == "https",
            connect_timeout=connect_timeout,
            keep_seconds=_IDLE_CONNECTION_SECONDS,
        )

    async def chat(self, body: bytes | LargeBody, *, model: str, path: str = _CHAT) -> "Reply":
        """Send the JSON body of a chat and return the reply, whose status is 200.

        Args:
            body: The body.
            model: The model, for errors.
            path: Another path of ``PATHS``.

        Raises:
            OllamaUnreachable: No connection could be made.
            ModelError: The server refused; the subclass depends on its answer.
        """
        try:
            connection = await self._send(path, body)
        except (HttpError, OSError) as error:
            raise self._error_from(error) from error
        if connection.status == 200:
            return Reply(connection, self._pool, self._error_from)
        try:
            raise await self._refusal(connection, model)
        finally:
            self._pool.drop(connection)

    async def running(self) -> bytes:
        """Return the body of ``GET /api/ps``: the loaded models.

        Raises:
            ModelError: The server could not be asked, or refused.
        """
        return await self._get(self._list_running)

    async def ping(self) -> bool:
        """Return whether the server answers within a second. Never raises a connection error."""
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._get(self._ping)
        except (ModelError, TimeoutError):
            return False
        return True

    async def aclose(self) -> None:
        """Close every connection, those of running streams included."""
        self._pool.close()

    async def _get(self, request: bytes) -> bytes:
        """Send a request without a body; return the body of its answer."""
        try:
            connection = await self._pool.send(request, silence_timeout=self._silence_timeout)
        except (HttpError, OSError) as error:
            raise self._error_from(error) from error
        if connection.status != 200:
            self._pool.drop(connection)
            raise errors.invalid_answer(f"it has HTTP {connection.status}.")
        return await Reply(connection, self._pool, self._error_from).read_whole(_MAX_LIST_BYTES)

    async def _send(self, path: str, body: bytes | LargeBody) -> HttpConnection:
        silence, head = self._silence_timeout, self._heads[path]
        if self._call_headers is not None:
            head = with_headers(head, self._call_headers())
        if isinstance(body, LargeBody):
            begun = with_length(head, body.length)
            return await self._pool.send(begun, silence_timeout=silence, rest=body)
        return await self._pool.send(with_body(head, body), silence_timeout=silence)

    async def _refusal(self, connection: HttpConnection, model: str) -> ModelError:
        status = connection.status
        if 300 <= status < 400:
            return errors.redirected(status, connection.headers.get("location", ""))
        body = bytearray()
        try:
            async with asyncio.timeout(_ERROR_BODY_SECONDS):
                while len(body) < _MAX_ERROR_BYTES and (data := await connection.read()):
                    body += data
        except (HttpError, TimeoutError):
            body.clear()
        text = bytes(body[:_MAX_ERROR_BYTES])
        return errors.error_from_answer(
            status,
            errors.parse_error(text),
            model=model,
            retry_after=connection.headers.get("retry-after"),
        )

    def _error_from(self, failure: HttpError | OSError) -> ModelError:
        """Translate a failure of the connection."""
        if isinstance(failure, OSError):
            return errors.unreachable(self._host.url, _reason(failure))
        if isinstance(failure, ReadTimeout):
            return errors.timed_out(self._silence_timeout)
        if isinstance(failure, ProtocolError):
            return errors.invalid_answer("it is not HTTP.")
        return errors.interrupted("the connection closed before its end.")


class Reply:
    """The body of one response, as it arrives.

    Attributes:
        readable: ``HttpConnection.readable`` itself: every token waits for it.
        set_data_callback: ``HttpConnection.set_data_callback``.
        read_arrived: ``HttpConnection.read_available`` itself, for the callback: it is called when
            there is something to read, so this raises nothing there.
    """

    __slots__ = (
        "_connection",
        "_error_from",
        "_pool",
        "read_arrived",
        "readable",
        "set_data_callback",
    )

    def __init__(
        self,
        connection: HttpConnection,
        pool: HttpPool,
        error_of: Callable[[HttpError], ModelError],
    ) -> None:
        self.readable = connection.readable
        self.set_data_callback = connection.set_data_callback
        self.read_arrived = connection.read_available
        self._connection = connection
        self._pool = pool
        self._error_from = error_of

    def read_available(self) -> bytes:
        """Return the bytes that have arrived; b"" at the end. Call once ``readable`` is done.

        Raises:
            OllamaError: The connection broke or timed out; what had arrived before was returned
                first.
        """
        try:
            return self._connection.read_available()
        except HttpError as error:
            raise self._error_from(error) from error

    async def read_whole(self, limit: int) -> bytes:
        """Return the whole body, of an answer that does not stream, and release the connection.

        Raises:
            OllamaError: The connection broke or timed out, or the body has more bytes than that.
        """
        body, complete = bytearray(), False
        try:
            while not complete:
                await self.readable()
                data = self.read_available()
                complete = not data
                body += data
                if len(body) > limit:
                    raise errors.reply_too_long(limit)
        finally:
            await self.aclose(complete=complete)
        return bytes(body)

    async def aclose(self, *, complete: bool) -> None:
        """Release the connection.

        Args:
            complete: Whether the protocol's final line was read. The connection is then kept for
                the next request, once the few bytes that end the HTTP body have arrived;
                otherwise it is closed at once, which stops the model.
        """
        connection = self._connection
        if complete and (connection.is_complete or await _ends_soon(connection)):
            self._pool.release(connection)
        else:
            self._pool.drop(connection)


async def _ends_soon(connection: HttpConnection) -> bool:
    try:
        async with asyncio.timeout(_LAST_BYTES_SECONDS):
            await connection.read()
    except (HttpError, TimeoutError):
        return False
    return connection.is_complete


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "the connection timed out"
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    return error.strerror or str(error)
