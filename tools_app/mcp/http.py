"""Bounds the SDK's HTTP transport: no redirects, no endless bodies, no floods.

Importing this module imports the SDK.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, cast

import anyio
import httpx2
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from sessions_app.surrogates import mend_escapes
from tools_app.mcp.config import HttpSpec
from tools_app.mcp.limits import MAX_MESSAGE_BYTES
from tools_app.mcp.rate_limit import RateLimiter
from tools_app.mcp.remote import CallHeaders

if TYPE_CHECKING:
    # private: mcp.client._transport, the module of the type that transports yield. Price: nothing
    # at run time.
    from mcp.client._transport import TransportStreams

_CONNECT_SECONDS = 10.0
_GOODBYE_SECONDS = 1.0

_LONGEST_RUN = 64
# A run of escapes up to the end: only from its start on can an escaped backslash and the beginning
# of an escape be told apart.
_BEGUN = re.compile(rb"(?:\\(?:u[0-9a-fA-F]{4}|[^u]))*\\(?:u[0-9a-fA-F]{0,4}|[^u])?\Z")

Incoming = SessionMessage | Exception


async def http_transport(spec: HttpSpec, call_headers: CallHeaders | None = None) -> Transport:
    """Return a transport that follows no redirects and reads no endless bodies.

    Args:
        spec: The server.
        call_headers: Returns further headers of a request, in the context of its caller.
    """
    # In a thread: it reads the trusted certificates.
    client = await asyncio.to_thread(_client, spec, call_headers)
    return _connected(client, spec.url)


@asynccontextmanager
async def _connected(client: httpx2.AsyncClient, url: str) -> AsyncIterator["TransportStreams"]:
    transport = streamable_http_client(
        url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
    )
    async with client, transport as (incoming, outgoing), anyio.create_task_group() as tasks:
        sender, receiver = anyio.create_memory_object_stream[Incoming](0)

        async def relay() -> None:
            limiter = RateLimiter()
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async with sender:
                    async for message in incoming:
                        await sender.send(message)
                        await limiter.wait()

        tasks.start_soon(relay)
        try:
            async with receiver:
                yield receiver, outgoing
        finally:
            tasks.cancel_scope.cancel()


def _client(spec: HttpSpec, call_headers: CallHeaders | None) -> httpx2.AsyncClient:
    request_hooks = [_hurry_goodbyes]
    if call_headers is not None:
        request_hooks.append(partial(_add_headers, call_headers))
    return httpx2.AsyncClient(
        headers={**spec.headers, "Accept-Encoding": "identity"},
        # A call may be silent until its own timeout, and a stream for ever.
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        max_redirects=0,
        event_hooks={"request": request_hooks, "response": [_bound]},
    )


async def _add_headers(call_headers: CallHeaders, request: httpx2.Request) -> None:
    request.headers.update(call_headers())


async def _hurry_goodbyes(request: httpx2.Request) -> None:
    """Shorten the wait for the acknowledgement of a session's end."""
    if request.method == "DELETE":
        request.extensions["timeout"] = httpx2.Timeout(_GOODBYE_SECONDS).as_dict()


async def _bound(response: httpx2.Response) -> None:
    """Refuse compressed bodies, and limit others to the size of a message."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("The answer is compressed, which was not asked for.")
    stream = _MendedStream(cast("httpx2.AsyncByteStream", response.stream))
    is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    response.stream = stream if is_events else _BoundedStream(stream)


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > MAX_MESSAGE_BYTES:
                raise httpx2.StreamError(f"The answer has more than {MAX_MESSAGE_BYTES:,} bytes.")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class _MendedStream(httpx2.AsyncByteStream):
    """Replaces lone surrogates in JSON, for which the SDK would refuse the message."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = b""
        async for piece in self._stream:
            data = held + piece
            begun = _begun_escape(data)
            held = data[len(data) - begun :]
            if whole := data[: len(data) - begun]:
                yield mend_escapes(whole)
        if held:
            yield mend_escapes(held)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _begun_escape(data: bytes) -> int:
    """Return how many bytes at the end may belong to an incomplete escape or pair."""
    found = _BEGUN.search(data, max(len(data) - _LONGEST_RUN, 0))
    return len(data) - found.start() if found else 0
