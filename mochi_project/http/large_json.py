"""Encodes responses of unknown size in a thread, and sends large ones in pieces."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from mochi_project.app import service
from mochi_project.memory.large_responses import LARGE_BYTES, LargeBody, LargeResponses
from mochi_project.memory.release import give_back_memory
from sessions_app.format.codec import to_json
from sessions_app.format.json_pieces import PIECE_BYTES, json_pieces

WHOLE_BYTES = 256 * 1024
TRIM_BYTES = 4 * 1024 * 1024
"""The response size from which on memory is returned to the system after encoding."""
CONTENT_TYPE = "application/json; charset=utf-8"

Work = Callable[[], Mapping[str, Any]]
ANY_NUMBER = nullcontext()


async def answer(work: Work, *, status: int = 200) -> HttpResponseBase:
    """Call ``work`` and encode its result, both in a thread.

    Long lists are ``LongList``. Tests compare the values with the schemas declared by routes.
    """
    return _response(*await asyncio.to_thread(_encode, work), status)


async def answer_by_reading(
    read: Work, places: AbstractAsyncContextManager[object] = ANY_NUMBER
) -> HttpResponseBase:
    """Answer like ``answer``, but limit concurrent responses over 8 MiB.

    Args:
        read: The work, which must have no side effects, as its answer may be refused.
        places: Entered during the work, but not while waiting for a place among large responses.

    Raises:
        TooManyLargeResponses: No place became free in time.
    """
    async with places:
        pieces, size = await asyncio.to_thread(_encode, read)
    if size <= LARGE_BYTES:
        return _response(pieces, size)
    place = await service(LargeResponses).enter()
    return _streamed(LargeBody(pieces, place), size)


def _encode(work: Work) -> tuple[deque[bytes], int]:
    """Return the encoded result in pieces, and its size; nothing else of it stays in memory."""
    pieces = deque(part for piece in json_pieces(work(), to_json) for part in _cut(piece))
    size = sum(map(len, pieces))
    if size > TRIM_BYTES:
        give_back_memory(above=0)
    return pieces, size


def _cut(piece: bytes) -> Iterator[bytes]:
    """Split a piece into parts that are small enough to buffer for a slow connection."""
    if len(piece) <= PIECE_BYTES:
        yield piece
        return
    for start in range(0, len(piece), PIECE_BYTES):
        yield piece[start : start + PIECE_BYTES]


def _response(pieces: deque[bytes], size: int, status: int = 200) -> HttpResponseBase:
    if size <= WHOLE_BYTES:
        return HttpResponse(b"".join(pieces), status=status, content_type=CONTENT_TYPE)
    return _streamed(_send(pieces), size, status)


def _streamed(pieces: AsyncIterator[bytes], length: int, status: int = 200) -> HttpResponseBase:
    response = StreamingHttpResponse(pieces, status=status, content_type=CONTENT_TYPE)
    response.headers["Content-Length"] = str(length)
    return response


async def _send(pieces: deque[bytes]) -> AsyncIterator[bytes]:
    while pieces:
        yield pieces.popleft()
        await asyncio.sleep(0)  # so that a fast client does not starve others
