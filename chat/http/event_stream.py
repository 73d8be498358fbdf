"""Sends a turn's events as an HTTP response of server-sent events."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Self

from chat.http.projector import Projector, UnchangedEvents
from chat.http.pushed_response import PushedResponse, Sink
from chat.stream import heartbeat
from chat.stream.encoding import encode_event
from chat.stream.events import Done, Failed
from chat.stream.numbered_event import Listener, NumberedEvent
from mochi_project.errors.messages import KEY_ENDED

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
"""Beside those that the guard gives every answer."""


NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class EventStreamBody:
    """Iterates over a turn's stream as bytes, each chunk with all events that wait.

    Not a generator: one that was never started, because its client had left already, would not
    run its ``finally`` when it is closed, and the turn would not be left.

    Args:
        listener: Receives the events.
        leave: Called when the client has left, or the stream is over.
        projector: Makes bytes of the events; without it they are sent as they are. Each event is
            fed to it once, and when it shows nothing, nothing is sent.
        first: Sent at once, before there is any event.

    Attributes:
        sink: Writes a chunk at once, instead of returning it; returns whether it did. Used after
            the first chunk.
    """

    __slots__ = (
        "_ahead",
        "_fed",
        "_first",
        "_has_begun",
        "_has_left",
        "_last",
        "_leave",
        "_listener",
        "_loop",
        "_projector",
        "_quiet_since",
        "_refused",
        "_waiting",
        "sink",
    )

    def __init__(
        self,
        listener: Listener,
        leave: Callable[[], None],
        projector: Projector | None = None,
        *,
        first: bytes = b"",
    ) -> None:
        self._listener = listener
        self._projector = projector or UnchangedEvents(listener)
        self._leave = leave
        self._first = first
        self._loop = asyncio.get_running_loop()
        self._has_begun = False
        self._has_left = False
        self._ahead: Sequence[NumberedEvent] = ()
        self.sink: Sink | None = None
        self._refused = b""
        self._fed = 0
        self._quiet_since = 0.0
        self._last: Sequence[NumberedEvent] | None = None
        self._waiting: asyncio.Task[object] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        push = self._push if self._has_begun and self.sink is not None else None
        while not self._is_revoked() and (self._refused or not self._projector.has_ended):
            self._waiting = asyncio.current_task()
            try:
                events = self._ahead or await self._listener.next(push)
            except asyncio.CancelledError:
                if not self._is_revoked() or _is_cancelled():
                    raise
                break
            finally:
                self._waiting = None
            if events is None:
                break
            self._ahead = ()
            chunk = self._project(events) if events else self._projector.heartbeat
            if events and not self._has_begun:
                chunk = self._begin(chunk)
            if chunk:
                return chunk
        if self._last:
            chunk = self._refused + self._projector.feed(self._last)
            self._refused, self._last = b"", ()
            return chunk if self._has_begun else self._begin(chunk)
        raise StopAsyncIteration

    def _is_revoked(self) -> bool:
        return self._last is not None

    def revoke(self) -> None:
        """End the stream with an error of its own: the key that opened it has ended."""
        if self._last is not None or self._projector.has_ended:
            return
        failed = Failed(code="UNAUTHENTICATED", message=KEY_ENDED, details={"retryable": False})
        data = encode_event(failed)
        # Without an id: it is in no journal, and the last one is still where to go on.
        frame = f"event: {failed.event}\ndata: {data}\n\n"
        last = [NumberedEvent(0, failed.event, data, frame)]
        if not isinstance(self._projector, UnchangedEvents):  # others end by it
            last.append(NumberedEvent(0, Done.event, encode_event(Done(session_id=""))))
        self._last = last
        if self._waiting is not None:
            self._waiting.cancel()

    async def look_ahead(self) -> bool:
        """Wait for the first events and keep them; False when the turn ended without any."""
        while (events := await self._listener.next()) is not None:
            if events:
                self._ahead = events
                return True
        return False

    def close(self) -> None:
        """Leave the turn, from any thread: Django may close a response in one."""
        if not self._has_left:
            self._loop.call_soon_threadsafe(self._leave)

    async def aclose(self) -> None:
        """Leave the turn."""
        self._has_left = True
        self._leave()

    def _begin(self, chunk: bytes) -> bytes:
        """Return the first chunk that is sent, if this is one."""
        chunk = self._projector.opening + chunk
        self._has_begun = bool(chunk)
        return chunk

    def _project(self, events: Sequence[NumberedEvent]) -> bytes:
        refused, self._refused = self._refused, b""
        if refused:
            events = [event for event in events if event.number > self._fed]
        chunk = refused + self._projector.feed(events) if events else refused
        if chunk:
            self._quiet_since = 0.0
            return chunk
        return self._heartbeat_if_due()

    def _push(self, events: Sequence[NumberedEvent]) -> bool:
        """Project events and write them at once: the hot path."""
        sink, projector = self.sink, self._projector
        if sink is None or self._last is not None:
            return False
        chunk = projector.feed(events)
        if chunk:
            self._quiet_since = 0.0
            if sink(chunk):
                return not projector.has_ended  # the listener returns, and the stream ends
            # The listener returns these events again; a projector gets each of them once.
            self._refused, self._fed = chunk, events[-1].number
            return False
        if comment := self._heartbeat_if_due():
            sink(comment)  # whoever does not take it has other bytes to read
        return True

    def _heartbeat_if_due(self) -> bytes:
        """Return a heartbeat where events come and come, and none of them shows anything."""
        now = self._loop.time()
        if not self._quiet_since:
            self._quiet_since = now
        elif now - self._quiet_since >= heartbeat.HEARTBEAT_SECONDS:
            self._quiet_since = now
            return self._projector.heartbeat
        return b""


def _is_cancelled() -> bool:
    """Take back one cancellation of this task; return whether there are others."""
    task = asyncio.current_task()
    return task is None or task.uncancel() > 0


class EventStream(PushedResponse):
    """Streams a turn's events to a client.

    Args:
        body: What is sent.
        committed: Raises the turn's error when it ended without an event; without it the stream
            is ready at once.
        headers: Headers beside those of every stream.
    """

    def __init__(
        self,
        body: EventStreamBody,
        committed: Callable[[], Awaitable[None]] | None = None,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        super().__init__(body, headers={**HEADERS, **headers})
        self._body = body
        self._committed = committed

    def revoke(self) -> None:
        """End the stream with an error of its own."""
        self._body.revoke()

    def __aiter__(self) -> EventStreamBody:
        """Return the body itself: Django's generators around it would not close it."""
        self._body.sink = self.sink
        return self._body

    async def ready(self) -> None:
        """Wait until the turn has begun; the middleware does that for views that did not.

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
        self._committed = None
