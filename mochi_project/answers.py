"""Answers of which nobody knows how large they are: made in a thread, sent bit by bit."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from sessions_app.codec import to_json
from sessions_app.pieces import json_pieces

WHOLE_BYTES = 256 * 1024
CONTENT_TYPE = "application/json; charset=utf-8"


async def answer(work: Callable[[], Mapping[str, Any]], *, status: int = 200) -> HttpResponseBase:
    """Do the work and encode what comes of it, both in a thread.

    Lists that may be long are ``Many``. The shapes are made by the apps' ``payloads``; that they
    are what the routes declare is tested.
    """
    pieces = await asyncio.to_thread(lambda: deque(json_pieces(work(), to_json)))
    length = sum(map(len, pieces))
    if length <= WHOLE_BYTES:
        return HttpResponse(b"".join(pieces), status=status, content_type=CONTENT_TYPE)
    response = StreamingHttpResponse(_send(pieces), status=status, content_type=CONTENT_TYPE)
    response.headers["Content-Length"] = str(length)
    return response


async def _send(pieces: deque[bytes]) -> AsyncIterator[bytes]:
    while pieces:
        yield pieces.popleft()
