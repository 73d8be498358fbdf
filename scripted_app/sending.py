"""Sends a planned reply: pace, injected faults, end."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from scripted_app.replies import (
    CHUNK_WORDS,
    BrokenLine,
    Chunk,
    Disconnect,
    End,
    ErrorLine,
    RawBytes,
    ReplyPlan,
    Silence,
    TextChunk,
    estimate_tokens,
)
from scripted_app.wire import Refused, ReplyWire, characters

SLOWEST_CHUNK_SECONDS = 3600.0
CONTENT_REFUSED = "the content was refused"
CUT_BYTES = 20

ErrorBody = Callable[..., bytes]
"""From a status, a message and the details of a refusal to the body of an error."""


class Pace:
    """Paces chunks of five words on an absolute schedule (no drift)."""

    def __init__(self, words_per_second: float) -> None:
        interval = CHUNK_WORDS / words_per_second if words_per_second else 0.0
        self._interval = min(interval, SLOWEST_CHUNK_SECONDS)
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()

    async def chunk(self) -> None:
        """Wait until the next chunk is due; always yields to the loop."""
        await asyncio.sleep(max(0.0, self._due - self._loop.time()))
        self._due += self._interval

    async def silence(self, seconds: float) -> None:
        """Pause, and shift the schedule by the pause."""
        await asyncio.sleep(seconds)
        self._due = max(self._due + seconds, self._loop.time())


async def stream(
    request: web.Request, plan: ReplyPlan, wire: ReplyWire, pace: Pace
) -> web.StreamResponse:
    """Send the plan's steps. The headers go with the first frame, as from a real server."""
    response = web.StreamResponse(headers={"Content-Type": wire.content_type})
    with suppress(ConnectionResetError):  # the client has disconnected
        await _send_steps(request, response, plan, wire, pace)
    return response


async def _send_steps(
    request: web.Request,
    response: web.StreamResponse,
    plan: ReplyPlan,
    wire: ReplyWire,
    pace: Pace,
) -> None:
    counted = 0

    async def send(frame: bytes) -> None:
        if not response.prepared:
            await response.prepare(request)
        await response.write(frame)

    for step in plan.steps:
        match step:
            case RawBytes(text):
                await pace.chunk()
                await send(text.encode("utf-8", "surrogatepass"))
            case Silence(seconds):
                await pace.silence(seconds)
            case BrokenLine():
                await send(_broken(wire))
            case ErrorLine(message):
                await send(wire.error(message))
                return
            case End(reason):
                await send(wire.end(reason, estimate_tokens(counted)))
                return
            case Disconnect(orderly):
                if not orderly:
                    _cut(request, response)
                return
            case _:
                counted += characters(step)
                for frame in wire.frames(step):
                    await pace.chunk()
                    await send(frame)
    is_raw = any(isinstance(step, RawBytes) for step in plan.steps)
    await send(b"" if is_raw else wire.end("stop", estimate_tokens(counted)))


def _broken(wire: ReplyWire) -> bytes:
    """Return a frame of a text that breaks off within its JSON."""
    frame = b"".join(wire.frames(TextChunk("lorem")))
    written = frame.rstrip()
    return written[:-CUT_BYTES] + frame[len(written) :]


async def whole(
    request: web.Request,
    plan: ReplyPlan,
    wire: ReplyWire,
    pace: Pace,
    error_body: ErrorBody,
) -> web.StreamResponse:
    """Send the answer as one body, after the time that streaming it would take."""
    chunks: list[Chunk] = []
    broken = False
    raw = ""
    for step in plan.steps:
        match step:
            case RawBytes(text):
                raw += text
            case Silence(seconds):
                await pace.silence(seconds)
            case BrokenLine():
                broken = True
            case ErrorLine(message):
                return refusal_of(Refused(500, message), error_body)
            case End("refused"):
                return refusal_of(Refused(400, CONTENT_REFUSED), error_body)
            case End():
                break
            case Disconnect():
                return _cut(request, web.Response())
            case _:
                await pace.chunk()
                chunks.append(step)
    if raw:
        body = raw.encode("utf-8", "surrogatepass")
        return web.Response(body=body, content_type="application/json")
    body = wire.whole(chunks, estimate_tokens(sum(map(characters, chunks))))
    if broken:
        body = body[: len(body) // 2]
    return web.Response(body=body, content_type="application/json")


def _cut(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    # What was written before still goes out; only the stream's end is missing.
    if request.transport is not None:
        request.transport.close()
    return response


def refusal_of(refusal: Refused, error_body: ErrorBody) -> web.Response:
    """Return the answer that is only an error."""
    body = error_body(refusal.status, refusal.message, **refusal.details)
    headers = {} if refusal.retry_after is None else {"Retry-After": f"{refusal.retry_after:g}"}
    return web.Response(
        status=refusal.status, body=body, content_type="application/json", headers=headers
    )
