"""A turn's frames as an HTTP response."""

from collections.abc import Callable
from typing import Self

from django.http import StreamingHttpResponse

from chat import sse
from chat.turns import Listener


class Frames:
    """A turn's frames as they come, each chunk with everything that waits.

    Not a generator: one that was never started, because its client had left already, would not
    run its ``finally`` when it is closed, and nobody would leave the turn.
    """

    def __init__(self, listener: Listener, leave: Callable[[], None]) -> None:
        self._listener = listener
        self._leave = leave
        self._first = sse.RETRY

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._listener.next()
        if not chunk:
            raise StopAsyncIteration
        if self._first:
            chunk, self._first = self._first + chunk, b""
        return chunk

    async def aclose(self) -> None:
        """Leave the turn; the handler calls it however the response ends."""
        self._leave()


def event_stream(frames: Frames) -> StreamingHttpResponse:
    """Return the response that sends a turn's frames."""
    response = StreamingHttpResponse(frames, content_type="text/event-stream; charset=utf-8")
    response.headers["Cache-Control"] = "no-cache, no-transform"
    response.headers["X-Accel-Buffering"] = "no"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
