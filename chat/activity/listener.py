"""Receives changes for one client, in a buffer of bounded size."""

import asyncio
from collections.abc import Callable, Sequence

from chat.stream.heartbeat import Heartbeat
from chat.stream.numbered_event import NumberedEvent, Push

MAX_PENDING_BYTES = 256 * 1024


class ActivityListener:
    """Listens to changes; implements ``Listener``.

    What the client has not taken waits in memory up to 256 KiB. One that falls further behind is
    told to begin anew instead: for it that is less than all the changes.

    Args:
        leave: Called once, when it is closed.
        begin_anew: Returns the event that says so, in the place of one that can't be kept.
    """

    turn_id = ""

    def __init__(
        self,
        leave: Callable[["ActivityListener"], None],
        begin_anew: Callable[[NumberedEvent], NumberedEvent],
    ) -> None:
        self._leave = leave
        self._begin_anew = begin_anew
        self._pending: list[NumberedEvent] = []
        self._pending_bytes = 0
        self._is_silent = False
        self._is_closed = False
        self._ended = False
        self._sink: Push | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._heartbeat = Heartbeat(self._beat)

    def push_to(self, sink: Push) -> None:
        """Hand events to ``sink`` as they come, while ``next`` waits for them."""
        self._sink = sink

    def push(self, events: Sequence[NumberedEvent]) -> None:
        """Take in events."""
        if not events or self._ended:
            return
        waiter = self._waiter
        is_awaited = waiter is not None and not waiter.done()
        if is_awaited and self._sink is not None and self._sink(events):
            self._heartbeat.last_sent = self._loop.time()
            return
        self._pending += events
        self._pending_bytes += sum(len(event.frame) for event in events)
        if self._pending_bytes > MAX_PENDING_BYTES:
            self._pending = [self._begin_anew(events[-1])]
            self._pending_bytes = len(self._pending[0].frame)
        self._wake()

    def end(self) -> None:
        """End the stream after what waits; no more comes."""
        self._ended = True
        self._wake()

    async def next(self) -> Sequence[NumberedEvent] | None:
        """Wait for the next events and return all that wait; none after 15 s of silence.

        Returns:
            The events; None when the stream has ended.
        """
        while not self._pending:
            if self._ended:
                return None
            if self._is_silent:
                self._is_silent = False
                self._heartbeat.last_sent = self._loop.time()
                return ()
            self._waiter = self._loop.create_future()
            await self._waiter
        self._is_silent = False
        self._heartbeat.last_sent = self._loop.time()
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        return pending

    def close(self) -> None:
        """Stop listening; doing it twice is harmless."""
        if not self._is_closed:
            self._is_closed = True
            self._heartbeat.stop()
            self._leave(self)

    def _beat(self) -> None:
        if not self._pending:
            self._is_silent = True
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
