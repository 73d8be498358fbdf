"""Subscribes to a running turn's events, from now or from a given event on."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from chat.storage.journal import JournalSlice
from chat.stream.heartbeat import Heartbeat
from chat.stream.journal_errors import broken_off
from chat.stream.numbered_event import NumberedEvent, Push, numbered_events
from sessions_app.errors import StorageUnavailable

MAX_PENDING_BYTES = 256 * 1024
EVENT_BYTES = 256  # what a waiting event takes in memory beside its payload, roughly
RETRY_SECONDS = 0.25  # before a journal is read again that could not be reached

ReadJournal = Callable[[int], Awaitable[JournalSlice]]


class Subscribable(Protocol):
    """Delivers a turn's events to its subscriptions."""

    turn_id: str
    session_id: str
    last_number: int
    journalled: int
    ended: bool

    def unsubscribe(self, subscription: "Subscription") -> None:
        """Stop sending to a listener. Idempotent."""


class Subscription:
    """Listens to a running turn.

    Up to 256 KiB of events wait in memory. A listener that falls further behind reads the rest from
    the journal, in chunks of that size, so a slow client needs no more memory and misses nothing.
    If the journal has a gap, the stream ends there. After 15 s without events ``next`` returns
    none, so that a heartbeat can be sent.
    """

    __slots__ = (
        "_behind",
        "_fetched",
        "_heartbeat",
        "_is_broken_off",
        "_is_silent",
        "_is_waiting",
        "_loop",
        "_pending",
        "_pending_bytes",
        "_position",
        "_pushed",
        "_read_journal",
        "_sink",
        "_stream",
        "_waiter",
        "turn_id",
    )

    def __init__(self, stream: Subscribable, read_journal: ReadJournal, after: int | None) -> None:
        self.turn_id = stream.turn_id
        self._stream = stream
        self._read_journal = read_journal
        self._pending: list[NumberedEvent] = []
        self._pending_bytes = 0
        self._is_silent = False
        self._is_broken_off = False
        self._waiter: asyncio.Future[None] | None = None
        self._is_waiting = False  # ``next`` does, for all that was pushed
        self._sink: Push | None = None
        self._behind = after is not None and after < stream.journalled
        self._fetched = stream.last_number if after is None else after
        self._position = 0
        self._pushed = self._fetched
        self._loop = asyncio.get_running_loop()
        self._heartbeat = Heartbeat(self._beat)

    def push_to(self, sink: Push) -> None:
        """Pass new events to ``sink`` while ``next`` waits for them.

        This avoids waking a task for every token (docs/decisions/0019). ``sink`` returns whether it
        accepted the events; ``next`` returns those that it refused.
        """
        self._sink = sink

    def push(self, events: Sequence[NumberedEvent]) -> None:
        """Add events; called by the stream."""
        last_number = self._stream.last_number
        # While ``next`` waits, nothing is on its way before what comes now.
        if self._is_waiting and self._sink is not None and self._sink(events):
            self._fetched = self._pushed = last_number
            self._heartbeat.last_sent = self._loop.time()
            return
        journalled = last_number <= self._stream.journalled
        if self._behind and journalled:
            return
        self._pending += events
        for event in events:
            self._pending_bytes += len(event.data) + EVENT_BYTES
        if self._pending_bytes > MAX_PENDING_BYTES and journalled:
            self._pending.clear()
            self._pending_bytes = 0
            self._behind = True
        else:
            self._pushed = last_number
        self.wake()

    def wake(self) -> None:
        """Make ``next`` check for events again."""
        self._is_waiting = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> Sequence[NumberedEvent] | None:
        """Wait for the next events and return all; return none after 15 s without any.

        Returns:
            The events; None after the last ones.
        """
        if self._is_broken_off:
            return None
        while self._behind or not self._pending:
            if self._behind:
                if missed := await self._catch_up():
                    return missed
            elif self._is_silent:
                self._is_silent = False
                self._heartbeat.last_sent = self._loop.time()
                return ()
            elif self._stream.ended:
                return None
            else:
                self._waiter = self._loop.create_future()
                self._is_waiting = True
                try:
                    await self._waiter
                finally:
                    self._is_waiting = False
        self._heartbeat.last_sent = self._loop.time()
        self._is_silent = False
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        self._fetched = self._pushed
        return pending

    def close(self) -> None:
        """Stop listening. Idempotent."""
        self._heartbeat.stop()
        self._sink = None  # a stream's body, which holds this
        self._stream.unsubscribe(self)

    def _beat(self) -> None:
        if not self._pending and not self._behind:
            self._is_silent = True
            self.wake()

    async def _catch_up(self) -> Sequence[NumberedEvent]:
        """Return the next chunk of missed events; there may be more."""
        missed: list[NumberedEvent] = []
        while not missed:
            try:
                passage = await self._read_journal(self._position)
            except StorageUnavailable:
                if not self._stream.ended:
                    await asyncio.sleep(RETRY_SECONDS)
                    return missed
                passage = JournalSlice([], self._position)
            if not passage.entries:
                break
            self._position = passage.position
            missed = numbered_events(passage.entries, after=self._fetched)
        if not missed and self._fetched < self._stream.journalled:
            self._is_broken_off = True  # what should be there and is not will not come either
            missed = broken_off(self._stream.session_id, after=self._fetched)
        if missed:
            self._fetched = missed[-1].number
            self._pushed = max(self._pushed, self._fetched)
        self._behind = not self._is_broken_off and self._fetched < self._stream.journalled
        self._heartbeat.last_sent = self._loop.time()
        return missed
