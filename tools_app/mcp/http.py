"""Bounds the SDK's HTTP transport: no redirects, no endless bodies, no floods.

Responses are rewritten to what the SDK understands: whatever answers a request becomes a stream of
events, and a status of failure a JSON-RPC error that says what the status means.

Importing this module imports the SDK.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio
import httpx2
from httpx2 import EventSource, codes
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from tools_app.mcp.config import HttpSpec
from tools_app.mcp.http_errors import refusal, words_of_body
from tools_app.mcp.limits import MAX_MESSAGE_BYTES
from tools_app.mcp.messages import Exchange, in_thread_if_large, read_messages
from tools_app.mcp.rate_limit import RateLimiter
from tools_app.mcp.redaction import redacted
from tools_app.mcp.remote import CallHeaders

if TYPE_CHECKING:
    # private: mcp.client._transport, the module of the type that transports yield. Price: nothing
    # at run time.
    from mcp.client._transport import TransportStreams

_CONNECT_SECONDS = 10.0
_GOODBYE_SECONDS = 1.0
_PLAIN_STATUSES = frozenset({codes.BAD_REQUEST, codes.NOT_FOUND})
"""Statuses that say nothing beyond the JSON-RPC error that comes with them."""

Incoming = SessionMessage | Exception


async def http_transport(
    spec: HttpSpec, exchange: Exchange, call_headers: CallHeaders | None = None
) -> Transport:
    """Return a transport that follows no redirects and reads no endless bodies.

    Args:
        spec: The server.
        exchange: Makes the server's replies fit.
        call_headers: Returns further headers of a request, in the context of its caller.
    """
    # In a thread: it reads the trusted certificates.
    client = await asyncio.to_thread(_client, spec, exchange, call_headers)
    return _connected(client, spec.url, exchange)


@asynccontextmanager
async def _connected(
    client: httpx2.AsyncClient, url: str, exchange: Exchange
) -> AsyncIterator["TransportStreams"]:
    transport = streamable_http_client(
        url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
    )
    async with client, transport as (incoming, outgoing), anyio.create_task_group() as tasks:
        sender, receiver = anyio.create_memory_object_stream[Incoming](0)

        async def relay() -> None:
            limiter = RateLimiter()
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async with sender:
                    async for item in incoming:
                        if isinstance(item, SessionMessage):
                            item.message = exchange.fitted(item.message)
                        await sender.send(item)
                        await limiter.wait()

        tasks.start_soon(relay)
        try:
            async with receiver:
                yield receiver, outgoing
        finally:
            tasks.cancel_scope.cancel()


def _client(
    spec: HttpSpec, exchange: Exchange, call_headers: CallHeaders | None
) -> httpx2.AsyncClient:
    async def note(request: httpx2.Request) -> None:
        if (message := _message_in(request)) is not None:
            exchange.note(message)

    request_hooks = [_hurry_goodbyes, note]
    if call_headers is not None:
        request_hooks.append(partial(_add_headers, call_headers))
    return httpx2.AsyncClient(
        headers={**spec.headers, "Accept-Encoding": "identity"},
        # A call may be silent until its own timeout, and a stream for ever.
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        max_redirects=0,
        event_hooks={"request": request_hooks, "response": [partial(_rewrite, spec.secrets)]},
    )


async def _add_headers(call_headers: CallHeaders, request: httpx2.Request) -> None:
    request.headers.update(call_headers())


async def _hurry_goodbyes(request: httpx2.Request) -> None:
    """Shorten the wait for the acknowledgement of a session's end."""
    if request.method == "DELETE":
        request.extensions["timeout"] = httpx2.Timeout(_GOODBYE_SECONDS).as_dict()


def _message_in(request: httpx2.Request) -> JSONRPCMessage | None:
    if request.method != "POST":
        return None
    return jsonrpc_message_adapter.validate_json(request.content, by_name=False)


async def _rewrite(secrets: frozenset[str], response: httpx2.Response) -> None:
    """Refuse compressed bodies, bound others, and make them readable for the SDK."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("The answer is compressed, which was not asked for.")
    source = httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=response.stream,
        request=response.request,
    )
    kind = response.headers.get("content-type", "").lower()
    message = _message_in(response.request)
    if isinstance(message, JSONRPCRequest) and response.is_error:
        response.headers["content-type"] = "application/json"
        response.stream = _Rewritten(source, _error(source, secrets))
    elif kind.startswith("text/event-stream"):
        response.stream = _Rewritten(source, _events(source))
    elif not isinstance(message, JSONRPCRequest) or response.is_redirect:
        response.stream = _Rewritten(source, _body(source))
    elif response.status_code != codes.ACCEPTED:
        response.headers["content-type"] = "text/event-stream"
        response.stream = _Rewritten(source, _reply(source, secrets))


class _Rewritten(httpx2.AsyncByteStream):
    """The body of a response, made of that of the original response."""

    def __init__(self, source: httpx2.Response, pieces: AsyncGenerator[bytes]) -> None:
        self._source = source
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._pieces) as pieces:
            async for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        await self._source.aclose()


async def _body(source: httpx2.Response) -> AsyncGenerator[bytes]:
    size = 0
    async for piece in source.aiter_raw():
        size += len(piece)
        if size > MAX_MESSAGE_BYTES:
            raise httpx2.StreamError(f"The answer has more than {MAX_MESSAGE_BYTES:,} bytes.")
        yield piece


async def _events(source: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield the events of a stream, each with one message."""
    async for event in EventSource(source, max_event_size=MAX_MESSAGE_BYTES):
        retry = f"retry: {event.retry}\n" if event.retry is not None else ""
        head = f"{retry}id: {event.id}\n" if event.id else retry
        data = event.data.encode()
        messages = await in_thread_if_large(read_messages, data)  # none in a sign of life
        for text in map(_text, messages) if data else [b""]:
            yield _event(text, head)


async def _reply(source: httpx2.Response, secrets: frozenset[str]) -> AsyncGenerator[bytes]:
    """Yield as events the messages of a body that has at least one reply."""
    data, reason = b"", "but no answer to the request."
    try:
        data = b"".join([piece async for piece in _body(source)])
    except httpx2.StreamError as error:
        reason = f"which can't be read: {error}"
    messages = await in_thread_if_large(read_messages, data)
    if not any(isinstance(message, JSONRPCResponse | JSONRPCError) for message in messages):
        kind = source.headers.get("content-type", "").partition(";")[0] or "no content type"
        words = redacted(words_of_body(data), secrets) or "nothing"
        reason = f"It answered {source.status_code} with {kind}, {reason} It said: {words}"
        messages.append(_failure(PARSE_ERROR, reason))
    for message in messages:
        yield _event(_text(message))


async def _error(source: httpx2.Response, secrets: frozenset[str]) -> AsyncGenerator[bytes]:
    """Yield the JSON-RPC error of a response that is one, or one that explains its status."""
    data, error = b"", None
    with suppress(httpx2.StreamError):
        data = b"".join([piece async for piece in _body(source)])
        messages = await in_thread_if_large(read_messages, data)
        error = next((item.error for item in messages if isinstance(item, JSONRPCError)), None)
    words = redacted(words_of_body(data), secrets)
    status, message = source.status_code, refusal(source.status_code, source.headers, words)
    code = INTERNAL_ERROR if error is None else error.code
    if error is not None and status in _PLAIN_STATUSES:
        message = error.message
    is_unknown = status == codes.NOT_FOUND and code != METHOD_NOT_FOUND
    is_unknown |= status == codes.BAD_REQUEST and "session" in words.lower()
    if is_unknown and "mcp-session-id" in source.request.headers:
        code = CONNECTION_CLOSED  # the server has forgotten the session
    yield _text(_failure(code, message, None if error is None else error.data))


def _failure(code: int, message: str, data: object = None) -> JSONRPCError:
    error = ErrorData(code=code, message=message, data=data)
    return JSONRPCError(jsonrpc="2.0", id=None, error=error)


def _text(message: JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError:
        return _text(
            _failure(PARSE_ERROR, "Its answer is nested too deeply. The tool may have run.")
        )


def _event(data: bytes, head: str = "") -> bytes:
    return b"%bdata: %b\n\n" % (head.encode(), data)
