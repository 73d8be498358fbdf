"""A turn's frames as an HTTP response."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

from django.http import StreamingHttpResponse

from chat.registry import Listener
from chat.stream import sse

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


class Frames:
    """A turn's frames as they come, each chunk with everything that waits.

    Not a generator: one that was never started, because its client had left already, would not
    run its ``finally`` when it is closed, and nobody would leave the turn.
    """

    def __init__(self, listener: Listener, leave: Callable[[], None]) -> None:
        self._listener = listener
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._first = sse.RETRY
        self._ahead = b""
        self._sink: Callable[[bytes], bool] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = self._ahead or await self._listener.next()
        if not chunk:
            raise StopAsyncIteration
        self._ahead = b""
        if self._first:
            chunk, self._first = self._first + chunk, b""
            if self._sink is not None:
                self._listener.push_to(self._sink)
        return chunk

    def push_to(self, sink: Callable[[bytes], bool]) -> None:
        """Hand frames to ``sink`` as they come, after the first; it returns whether it took them.

        What it does not take is iterated over, as is everything before somebody iterates.
        """
        self._sink = sink

    async def look_ahead(self) -> bool:
        """Wait for the first frames and keep them; False when the turn ended without any."""
        while (chunk := await self._listener.next()) == sse.HEARTBEAT:
            pass
        self._ahead = chunk
        return bool(chunk)

    def close(self) -> None:
        """Leave the turn, from any thread: Django may close a response in one."""
        self._loop.call_soon_threadsafe(self._leave)

    async def aclose(self) -> None:
        """Leave the turn."""
        self._leave()


class EventStream(StreamingHttpResponse):
    """Sends a turn's frames.

    Args:
        frames: What is sent.
        committed: Raises the turn's error when it ended without an event; without it the stream
            is ready at once.
    """

    def __init__(
        self, frames: Frames, committed: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        super().__init__(frames, headers=HEADERS)
        self._frames = frames
        self._committed = committed

    def __aiter__(self) -> Frames:
        """Return the frames themselves: Django's generators around them would not close them."""
        return self._frames

    def push_to(self, sink: Callable[[bytes], bool]) -> None:
        """Hand frames to ``sink`` as they come, after the first."""
        self._frames.push_to(sink)

    async def ready(self) -> None:
        """Wait until the turn has begun.

        Raises:
            MochiError: The turn ended before its first event; it has been left.
        """
        if self._committed is None:
            return
        try:
            if not await self._frames.look_ahead():
                await self._committed()
        except BaseException:
            await self._frames.aclose()
            raise
