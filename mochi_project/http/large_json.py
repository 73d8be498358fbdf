"""Encodes responses of unknown size in a thread, and sends large ones in pieces."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from mochi_project.memory.large_responses import LARGE_BYTES, LargeBody
from mochi_project.memory.release import give_back_memory
from mochi_project.wiring.services import get_services
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
    encoding = await asyncio.to_thread(_Encoding, work, None)
    return _response(encoding, status)


async def answer_by_reading(
    read: Work, places: AbstractAsyncContextManager[object] = ANY_NUMBER
) -> HttpResponseBase:
    """Answer like ``answer``, but limit concurrent responses over 8 MiB.

    Args:
        read: The work, which must have no side effects, as a large response may call it twice.
        places: Entered during the work, but not while waiting for a place among large responses.

    Raises:
        TooManyLargeResponses: No place became free in time.
    """
    async with places:
        encoding = await asyncio.to_thread(_Encoding, read, LARGE_BYTES)
    if encoding.is_complete:
        return _response(encoding)
    large = get_services().large_responses
    waits = large.is_full
    if waits:
        del encoding  # free the memory while waiting
    place = await large.enter()
    try:
        if waits:
            async with places:
                encoding = await asyncio.to_thread(_Encoding, read, LARGE_BYTES)
        await asyncio.to_thread(encoding.complete)
    except BaseException:
        place.leave()
        raise
    return _streamed(LargeBody(encoding.pieces, place), encoding.size)


class _Encoding:
    """Encodes a response in a thread, at first up to a limit.

    Once complete, only the encoded pieces stay in memory.
    """

    def __init__(self, work: Work, limit: int | None) -> None:
        self._rest: Iterator[bytes] = (
            part for piece in json_pieces(work(), to_json) for part in _cut(piece)
        )
        self.pieces: deque[bytes] = deque()
        self.size = 0
        self.is_complete = False
        self._make(limit)

    def complete(self) -> None:
        """Encode the rest."""
        self._make(None)

    def _make(self, limit: int | None) -> None:
        for piece in self._rest:
            self.pieces.append(piece)
            self.size += len(piece)
            if limit is not None and self.size > limit:
                return
        self.is_complete = True
        if self.size > TRIM_BYTES:
            give_back_memory(above=0)


def _cut(piece: bytes) -> Iterator[bytes]:
    """Split a piece into parts that are small enough to buffer for a slow connection."""
    if len(piece) <= PIECE_BYTES:
        yield piece
        return
    for start in range(0, len(piece), PIECE_BYTES):
        yield piece[start : start + PIECE_BYTES]


def _response(made: _Encoding, status: int = 200) -> HttpResponseBase:
    if made.size <= WHOLE_BYTES:
        body = b"".join(made.pieces)
        return HttpResponse(body, status=status, content_type=CONTENT_TYPE)
    return _streamed(_send(made.pieces), made.size, status)


def _streamed(pieces: AsyncIterator[bytes], length: int, status: int = 200) -> HttpResponseBase:
    response = StreamingHttpResponse(pieces, status=status, content_type=CONTENT_TYPE)
    response.headers["Content-Length"] = str(length)
    return response


async def _send(pieces: deque[bytes]) -> AsyncIterator[bytes]:
    while pieces:
        yield pieces.popleft()
        await asyncio.sleep(0)  # so that a fast client does not starve others
