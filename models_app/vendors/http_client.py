"""Opens the HTTP client that a vendor's SDK and its list of models share.

Importing this module imports httpx2 (about 100 ms) and opening a client reads certificates: both
happen in a thread, and only for vendors that are used.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextvars import ContextVar
from functools import partial

import httpx2

from models_app.errors import ServiceUnavailable
from models_app.inserted_files import InsertedFiles, LargeBody
from models_app.model_calls import CallHeaders
from models_app.vendors.event_streams import EventReader, Translator
from models_app.vendors.response_events import ResponseEvents
from models_app.vendors.vendor import Vendor

CONNECT_SECONDS = 10.0
_MAX_CONNECTIONS = 1000
_KEPT_CONNECTIONS = 20
MAX_LINE_BYTES = 16 * 1024 * 1024
"""The SDKs buffer a line until it ends, however long it is."""
MAX_REPLY_BYTES = 256 * 1024 * 1024
"""A reply is in memory until its end."""

opened_responses: ContextVar[list[httpx2.Response] | None] = ContextVar(
    "opened_responses", default=None
)
"""Collects the responses to the requests of one stream, so that they can be closed with it.

An SDK that is left in mid-answer closes its response when the garbage collector finds it; a
cancelled model must stop at once.
"""

inserted_files: ContextVar[InsertedFiles | None] = ContextVar("inserted_files", default=None)
"""The files that take the places of their stand-ins in the requests of one stream."""


class _LargeStream(httpx2.AsyncByteStream):
    """Sends a large body; others have their turn after each piece."""

    def __init__(self, body: LargeBody) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces."""
        for piece in self._body:
            yield piece
            await asyncio.sleep(0)


def open_client(
    vendor: Vendor,
    *,
    silence_timeout: float,
    connect_timeout: float = CONNECT_SECONDS,
    call_headers: CallHeaders | None = None,
) -> httpx2.AsyncClient:
    """Return a client for one vendor: no redirects, timeouts on every phase.

    Proxies are taken from the environment unless the vendor is on this machine.

    Args:
        vendor: The vendor.
        silence_timeout: Seconds without a byte after which an answer counts as lost.
        connect_timeout: The timeout of connecting, in seconds.
        call_headers: Returns further headers of a model call; None for none.
    """

    async def limit_waiting(request: httpx2.Request) -> None:
        # Each SDK sets timeouts of its own on a request, ten minutes by default.
        asked = request.extensions.get("timeout") or {}
        silence = min(silence_timeout, asked.get("read") or silence_timeout)
        request.extensions = {
            **request.extensions,
            "timeout": {
                "connect": connect_timeout,
                "pool": connect_timeout,
                "read": silence,
                "write": silence,
            },
        }

    request_hooks = [limit_waiting, _insert_files]
    if call_headers is not None:
        request_hooks.append(partial(_add_headers, call_headers))
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(silence_timeout, connect=connect_timeout),
        limits=httpx2.Limits(
            max_connections=_MAX_CONNECTIONS, max_keepalive_connections=_KEPT_CONNECTIONS
        ),
        follow_redirects=False,
        # Without TLS there are no certificates to read.
        verify=not vendor.base_url.startswith("http://"),
        trust_env=not vendor.is_local,
        event_hooks={"request": request_hooks, "response": [partial(_watch, vendor)]},
        headers={"User-Agent": "mochi-server"},
    )


async def _insert_files(request: httpx2.Request) -> None:
    files = inserted_files.get()
    if files is not None:
        body = files.body(await request.aread())
        request.stream = _LargeStream(body)
        request.headers["Content-Length"] = str(body.length)


async def _watch(vendor: Vendor, response: httpx2.Response) -> None:
    read = partial(_bounded, response.aiter_bytes)
    if response.request.method == "POST" and response.is_success:
        by_responses = response.request.url.path.endswith("/responses")
        translator = ResponseEvents() if by_responses else vendor.translator()
        read = partial(_translated, read, translator)
    response.aiter_bytes = read  # type: ignore[method-assign]
    opened = opened_responses.get()
    if opened is not None:
        opened.append(response)
    if response.is_redirect:
        # Following it could carry a key elsewhere.
        status, location = response.status_code, response.headers.get("location", "")[:200]
        raise ServiceUnavailable(
            f"The address of '{vendor.name}' answered with a redirect (HTTP {status}) to "
            f"{location or 'another address'}, which is not followed. Configure the provider's "
            "own URL.",
            provider=vendor.name,
            retryable=False,
            status=status,
        )


async def _add_headers(call_headers: CallHeaders, request: httpx2.Request) -> None:
    request.headers.update(call_headers())


async def _bounded(
    read: Callable[[int | None], AsyncIterator[bytes]], chunk_size: int | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes read; raise once a line or the whole reply exceeds its limit."""
    begun = received = 0
    async for data in read(chunk_size):
        received += len(data)
        if received > MAX_REPLY_BYTES:
            raise httpx2.RemoteProtocolError(f"the reply is longer than {MAX_REPLY_BYTES} bytes")
        end = data.rfind(b"\n")
        begun = begun + len(data) if end < 0 else len(data) - end - 1
        if begun > MAX_LINE_BYTES:
            raise httpx2.RemoteProtocolError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        yield data


async def _translated(
    read: Callable[[int | None], AsyncIterator[bytes]],
    translator: Translator,
    chunk_size: int | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a stream in the form that the vendor's SDK reads."""
    reader = EventReader(translator)
    async for data in read(chunk_size):
        if events := reader.feed(data):
            yield events
    yield reader.end()
