"""Queues the events of one listener, in bounded memory."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from chat.stream.heartbeat import Heartbeat
from chat.stream.numbered_event import NumberedEvent, Push

MAX_PENDING_BYTES = 256 * 1024
EVENT_BYTES = 256  # what a waiting event takes in memory beside its payload, roughly


class EventQueue(ABC):
    """Queues events for the one that calls ``next``; implements ``Listener``.

    Up to 256 KiB of events wait in memory. The queue of a listener that falls further behind is
    emptied, and filled again by ``_catch_up``. After 15 s without events ``next`` returns none, so
    that a heartbeat can be sent.

    Args:
        turn_id: The turn that the events are of.
        ended: Whether no more events come.
        position: The number of the last event that the listener has.
        is_behind: Whether there are events before those that are pushed.

    Attributes:
        turn_id: The turn.
        has_ended: Whether no more events come.
    """

    __slots__ = (
        "_heartbeat",
        "_is_behind",
        "_is_silent",
        "_loop",
        "_pending",
        "_pending_bytes",
        "_sink",
        "_taken",
        "_waiter",
        "has_ended",
        "turn_id",
    )

    def __init__(
        self, turn_id: str = "", *, ended: bool = False, position: int = 0, is_behind: bool = False
    ) -> None:
        self.turn_id = turn_id
        self.has_ended = ended
        self._taken = position
        self._is_behind = is_behind
        self._is_silent = False
        self._pending: list[NumberedEvent] = []
        self._pending_bytes = 0
        self._sink: Push | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._heartbeat = Heartbeat(self._beat)

    def push(self, events: Sequence[NumberedEvent]) -> None:
        """Add events."""
        # A sink is there only while ``next`` waits: nothing is on its way before what comes now.
        if self._sink is not None and self._sink(events):
            self._taken = events[-1].number
            self._heartbeat.last_sent = self._loop.time()
            return
        can_be_caught_up = self._can_be_caught_up(events)
        if self._is_behind and can_be_caught_up:
            return
        self._pending += events
        for event in events:
            self._pending_bytes += len(event.data) + len(event.frame) + EVENT_BYTES
        if self._pending_bytes > MAX_PENDING_BYTES and can_be_caught_up:
            self._pending.clear()
            self._pending_bytes = 0
            self._is_behind = True
        self._wake()

    def end(self) -> None:
        """End the stream after the events that wait."""
        self.has_ended = True
        self._wake()

    async def next(self, sink: Push | None = None, /) -> Sequence[NumberedEvent] | None:
        """Wait for the next events and return all; return none after 15 s without any.

        Args:
            sink: Gets events while this waits, without waking its task (docs/decisions/0019). It
                returns whether it took them; those that it did not take are returned.

        Returns:
            The events; None after the last ones.
        """
        while self._is_behind or not self._pending:
            if self._is_behind:
                if missed := await self._catch_up():
                    self._taken = missed[-1].number
                    self._heartbeat.last_sent = self._loop.time()
                    return missed
            elif self._is_silent:
                self._is_silent = False
                self._heartbeat.last_sent = self._loop.time()
                return ()
            elif self.has_ended:
                return None
            else:
                self._waiter = self._loop.create_future()
                self._sink = sink
                try:
                    await self._waiter
                finally:
                    self._sink = None
        self._heartbeat.last_sent = self._loop.time()
        self._is_silent = False
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        self._taken = pending[-1].number
        return pending

    def close(self) -> None:
        """Stop listening. Idempotent."""
        self._heartbeat.stop()
        self._sink = None  # a stream's body, which holds this

    @abstractmethod
    def _can_be_caught_up(self, events: Sequence[NumberedEvent]) -> bool:
        """Return whether ``_catch_up`` makes up for these events."""

    @abstractmethod
    async def _catch_up(self) -> Sequence[NumberedEvent]:
        """Return the next of the events that are missing; clear ``_is_behind`` with the last."""

    def _beat(self) -> None:
        if not self._pending and not self._is_behind:
            self._is_silent = True
            self._wake()

    def _wake(self) -> None:
        """Make ``next`` check for events again."""
        self._sink = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
