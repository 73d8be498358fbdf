"""Sends a turn's events as an HTTP response of server-sent events."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Self

from django.http import StreamingHttpResponse

from chat.http import sse
from chat.stream.numbered_event import Listener, NumberedEvent, Push

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


class EventStreamBody:
    """Iterates over a turn's stream as bytes, each chunk with all events that wait.

    Not a generator: one that was never started, because its client had left already, would not
    run its ``finally`` when it is closed, and the turn would not be left.
    """

    def __init__(self, listener: Listener, leave: Callable[[], None]) -> None:
        self._listener = listener
        self._turn_id = listener.turn_id
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._first = sse.RETRY
        self._ahead: Sequence[NumberedEvent] = ()
        self._write: Callable[[bytes], bool] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        events = self._ahead or await self._listener.next()
        if events is None:
            raise StopAsyncIteration
        self._ahead = ()
        chunk = sse.encode_frames(self._turn_id, events) if events else sse.HEARTBEAT
        if self._first:
            chunk, self._first = self._first + chunk, b""
            if self._write is not None:
                self._listener.push_to(_sink(self._turn_id, self._write))
        return chunk

    def push_to(self, sink: Callable[[bytes], bool]) -> None:
        """Hand chunks to ``sink`` as they come, after the first; it returns whether it took them.

        What it does not take is iterated over, as is everything before the iteration begins.
        """
        self._write = sink

    async def look_ahead(self) -> bool:
        """Wait for the first events and keep them; False when the turn ended without any."""
        while (events := await self._listener.next()) is not None:
            if events:
                self._ahead = events
                return True
        return False

    def close(self) -> None:
        """Leave the turn, from any thread: Django may close a response in one."""
        self._loop.call_soon_threadsafe(self._leave)

    async def aclose(self) -> None:
        """Leave the turn."""
        self._leave()


def _sink(turn_id: str, write: Callable[[bytes], bool]) -> Push:
    def push(events: Sequence[NumberedEvent]) -> bool:
        return write(sse.encode_frames(turn_id, events))

    return push


class EventStream(StreamingHttpResponse):
    """Streams a turn's events to a client.

    Args:
        body: What is sent.
        committed: Raises the turn's error when it ended without an event; without it the stream
            is ready at once.
    """

    def __init__(
        self, body: EventStreamBody, committed: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        super().__init__(body, headers=HEADERS)
        self._body = body
        self._committed = committed

    def __aiter__(self) -> EventStreamBody:
        """Return the body itself: Django's generators around it would not close it."""
        return self._body

    def push_to(self, sink: Callable[[bytes], bool]) -> None:
        """Hand chunks to ``sink`` as they come, after the first."""
        self._body.push_to(sink)

    async def ready(self) -> None:
        """Wait until the turn has begun.

        Raises:
            MochiError: The turn ended before its first event; it has been left.
        """
        if self._committed is None:
            return
        try:
            if not await self._body.look_ahead():
                await self._committed()
        except BaseException:
            await self._body.aclose()
            raise
