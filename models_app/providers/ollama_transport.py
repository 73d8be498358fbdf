"""Bytes to and from Ollama: one pooled aiohttp session, read by whole network reads.

httpx, which the ollama library is built on, costs a millisecond before the first token and most
of the processor time after it; so chat goes this way, and the library does the rest.

Importing this module imports aiohttp (about 160 ms): it is imported lazily.
"""

import asyncio
import io

import aiohttp
from aiohttp.resolver import ThreadedResolver

from models_app.errors import ModelError
from models_app.providers import ollama_errors
from models_app.providers.ollama_host import CONNECT_SECONDS, OllamaHost

PING_SECONDS = 1.0
_IDLE_CONNECTION_SECONDS = 30.0
_MAX_ERROR_BYTES = 64 * 1024
_ERROR_BODY_SECONDS = 5.0
_LAST_BYTES_SECONDS = 0.05
_WATCH_SECONDS = 5.0
# What is held for a reader who is slower than the model: twice this, then TCP holds it back.
_BUFFERED_BYTES = 64 * 1024
# aiohttp warns about larger bodies that are plain bytes; it sends a BytesIO piece by piece.
_LARGE_BODY_BYTES = 2**20


class OllamaTransport:
    """The connection pool to one Ollama server. Belongs to the event loop it was made in.

    Args:
        host: The server's address.
        silence_timeout: Seconds without a byte after which an answer counts as lost.
        connect_timeout: Seconds that making a connection may take.
        authorization: An ``Authorization`` header, where the host has no credentials of its own.
    """

    def __init__(
        self,
        host: OllamaHost,
        *,
        silence_timeout: float,
        connect_timeout: float = CONNECT_SECONDS,
        authorization: str | None = None,
    ) -> None:
        self._host = host
        self._silence_timeout = silence_timeout
        headers = {"Accept-Encoding": "identity", "User-Agent": "mochi-server"}
        if authorization is not None:
            headers["Authorization"] = authorization
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # the number of turns is limited, and a turn must not wait for another
                keepalive_timeout=_IDLE_CONNECTION_SECONDS,
                resolver=ThreadedResolver(),
            ),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=connect_timeout, sock_read=silence_timeout
            ),
            headers={**headers, **host.headers},
            read_bufsize=_BUFFERED_BYTES,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def post(self, path: str, body: bytes, *, model: str) -> "Reply":
        """Send a JSON body and return the reply, whose status is 200.

        Raises:
            OllamaUnreachable: No connection could be made.
            ModelError: The server refused; which subclass, its answer tells.
        """
        try:
            response = await self._session.post(
                self._host.url + path,
                data=body if len(body) <= _LARGE_BODY_BYTES else io.BytesIO(body),
                headers={"Content-Type": "application/json"},
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise self.error_of(error) from error
        if response.status == 200:
            return Reply(response, self)
        try:
            raise await self._refusal(response, model)
        finally:
            response.close()

    async def ping(self) -> bool:
        """Tell whether the server answers, within a second. Never raises a connection error."""
        try:
            async with (
                asyncio.timeout(PING_SECONDS),
                self._session.get(
                    f"{self._host.url}/api/version", allow_redirects=False
                ) as response,
            ):
                await response.read()
                return response.status == 200
        except (aiohttp.ClientError, OSError):  # TimeoutError is an OSError
            return False

    async def aclose(self) -> None:
        """Close every connection, those of running streams included."""
        await self._session.close()

    async def _refusal(self, response: aiohttp.ClientResponse, model: str) -> ModelError:
        status = response.status
        if 300 <= status < 400:
            return ollama_errors.redirected(status, response.headers.get("Location", ""))
        try:
            async with asyncio.timeout(_ERROR_BODY_SECONDS):
                body = await _read_at_most(response.content, _MAX_ERROR_BYTES)
        except (aiohttp.ClientError, OSError):
            body = b""
        return ollama_errors.error_of_answer(status, ollama_errors.unwrap(body), model=model)

    def error_of(self, failure: Exception) -> ModelError:
        """Return the error that a failure of the connection stands for."""
        match failure:
            case aiohttp.ConnectionTimeoutError():
                return ollama_errors.unreachable(self._host.url, "the connection timed out")
            case aiohttp.ClientConnectorError():
                return ollama_errors.unreachable(self._host.url, _reason(failure.os_error))
            case TimeoutError():
                return ollama_errors.silent(self._silence_timeout)
            case aiohttp.ClientResponseError():
                return ollama_errors.made_no_sense("it is not HTTP.")
        if isinstance(failure, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
            reason = "the connection closed before its end."
        else:
            reason = f"{failure}." if str(failure) else f"{type(failure).__name__}."
        return ollama_errors.broke_off(reason)


class Reply:
    """The body of one answer, as it comes in."""

    __slots__ = ("_content", "_failure", "_response", "_transport", "_watch")

    def __init__(self, response: aiohttp.ClientResponse, transport: OllamaTransport) -> None:
        self._response = response
        self._content = response.content
        self._transport = transport
        self._failure: Exception | None = None
        self._watch_connection()

    async def read(self) -> bytes:
        """Return what has come in since the last read, waiting if that is nothing; b"" at the end.

        Raises:
            OllamaError: The connection broke or was silent for too long.
        """
        if self._failure is None:
            try:
                return await self._content.readany()
            except (aiohttp.ClientError, OSError) as error:
                self._failure = error
                if left := self._salvage():
                    return left
        raise self._transport.error_of(self._failure) from self._failure

    async def aclose(self, *, complete: bool) -> None:
        """Let go of the connection.

        Args:
            complete: The protocol's final line was read. The connection is then kept for the
                next request, as soon as the few bytes that end the HTTP body are in as well;
                otherwise it is closed at once, which stops the model.
        """
        self._watch.cancel()
        if complete and self._failure is None and await self._at_end():
            self._response.release()
        else:
            self._response.close()

    async def _at_end(self) -> bool:
        content = self._content
        if content.is_eof():
            return True
        try:
            async with asyncio.timeout(_LAST_BYTES_SECONDS):
                await content.readany()
        except (aiohttp.ClientError, OSError):
            return False
        return content.is_eof()

    def _watch_connection(self) -> None:
        """Look now and then whether the connection is still there.

        When an answer breaks HTTP's chunked framing, aiohttp closes the connection and forgets to
        tell the reader, who would wait for ever: its read timeout ends with the connection.
        """
        connection = self._response.connection
        protocol = connection.protocol if connection is not None else None
        content = self._content
        waits = not content.is_eof() and content.exception() is None
        if waits and protocol is not None and not protocol.is_connected():
            content.set_exception(aiohttp.ClientPayloadError("the connection is gone"))
        self._watch = asyncio.get_running_loop().call_later(_WATCH_SECONDS, self._watch_connection)

    def _salvage(self) -> bytes:
        """Return what came in before the connection broke.

        aiohttp raises before it hands out what it has buffered; but that is text which the model
        has spoken, or the line that says what went wrong.
        """
        self._content.set_exception(None)  # type: ignore[arg-type]
        return self._content.read_nowait()


def _reason(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    return error.strerror or str(error)


async def _read_at_most(content: aiohttp.StreamReader, limit: int) -> bytes:
    body = bytearray()
    while len(body) < limit and (data := await content.read(limit - len(body))):
        body += data
    return bytes(body)
