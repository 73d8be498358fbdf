"""A turn's frames as an HTTP response."""

from collections.abc import Awaitable, Callable
from functools import cached_property
from http.cookies import SimpleCookie
from typing import Self

from django.http import StreamingHttpResponse
from django.http.response import ResponseHeaders

from chat.registry import Listener
from chat.stream import sse

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}
_RAW_HEADERS = tuple((name.encode(), value.encode()) for name, value in HEADERS.items())


class Frames:
    """A turn's frames as they come, each chunk with everything that waits.

    Not a generator: one that was never started, because its client had left already, would not
    run its ``finally`` when it is closed, and nobody would leave the turn.
    """

    def __init__(self, listener: Listener, leave: Callable[[], None]) -> None:
        self._listener = listener
        self._leave = leave
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

    async def aclose(self) -> None:
        """Leave the turn; the handler calls it however the response ends."""
        self._leave()


class EventStream(StreamingHttpResponse):
    """The response that sends a turn's frames.

    It may be made before the turn has begun: whoever sends it awaits ``ready`` first.

    Django's constructor is not called. What it makes of the headers, always the same, is made when
    somebody asks for them.

    Args:
        frames: What is sent.
        committed: Raises the turn's error when it ended without an event; without it the stream
            is ready at once.
    """

    def __init__(
        self, frames: Frames, committed: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._iterator = frames
        self.is_async = True
        self.closed = False
        self._committed = committed
        self._charset = None
        self._handler_class = None
        self._reason_phrase = None
        self._resource_closers: list[Callable[[], None]] = []

    @cached_property
    def headers(self) -> ResponseHeaders:  # type: ignore[override]
        """The headers, for whoever reads or changes them."""
        return ResponseHeaders(HEADERS)

    @cached_property
    def cookies(self) -> SimpleCookie:  # type: ignore[override]
        """The cookies to set."""
        return SimpleCookie()

    @property
    def raw_headers(self) -> tuple[tuple[bytes, bytes], ...] | None:
        """The headers as they are sent; None once somebody may have changed them."""
        asked_for = vars(self)
        return None if "headers" in asked_for or "cookies" in asked_for else _RAW_HEADERS

    async def ready(self) -> None:
        """Wait until the turn has begun.

        Raises:
            MochiError: The turn ended before its first event; it has been left.
        """
        if self._committed is None:
            return
        try:
            if not await self._iterator.look_ahead():
                await self._committed()
        except BaseException:
            await self._iterator.aclose()
            raise
