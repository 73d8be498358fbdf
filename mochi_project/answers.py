"""Answers of which nobody knows how large they are: made in a thread, sent bit by bit."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from mochi_project.memory import give_back_memory
from sessions_app.codec import to_json
from sessions_app.pieces import PIECE_BYTES, json_pieces

WHOLE_BYTES = 256 * 1024
TRIM_BYTES = 4 * 1024 * 1024
"""From this size on, what the making of an answer took is worth giving back at once."""
CONTENT_TYPE = "application/json; charset=utf-8"


async def answer(work: Callable[[], Mapping[str, Any]], *, status: int = 200) -> HttpResponseBase:
    """Do the work and encode what comes of it, both in a thread.

    Lists that may be long are ``Many``. The shapes are made by the apps' ``payloads``; that they
    are what the routes declare is tested.
    """
    pieces = await asyncio.to_thread(_encode, work)
    length = sum(map(len, pieces))
    if length <= WHOLE_BYTES:
        return HttpResponse(b"".join(pieces), status=status, content_type=CONTENT_TYPE)
    response = StreamingHttpResponse(_send(pieces), status=status, content_type=CONTENT_TYPE)
    response.headers["Content-Length"] = str(length)
    return response


def _encode(work: Callable[[], Mapping[str, Any]]) -> deque[bytes]:
    """Do the work and return its JSON in pieces; nothing else of it stays in memory."""
    pieces = deque(part for piece in json_pieces(work(), to_json) for part in _cut(piece))
    if sum(map(len, pieces)) > TRIM_BYTES:
        give_back_memory(above=0)
    return pieces


def _cut(piece: bytes) -> Iterator[bytes]:
    """Yield a piece in parts of which a connection that is slow can hold one."""
    if len(piece) <= PIECE_BYTES:
        yield piece
        return
    for start in range(0, len(piece), PIECE_BYTES):
        yield piece[start : start + PIECE_BYTES]


async def _send(pieces: deque[bytes]) -> AsyncIterator[bytes]:
    while pieces:
        yield pieces.popleft()
