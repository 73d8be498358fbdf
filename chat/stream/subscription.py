"""Subscribes to a running turn's events, from now or from a given event on."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from chat.storage.journal import JournalSlice
from chat.stream.event_queue import EventQueue
from chat.stream.journal_errors import broken_off
from chat.stream.numbered_event import NumberedEvent, numbered_events
from sessions_app.errors import StorageUnavailable

if TYPE_CHECKING:
    from chat.stream.turn_stream import TurnStream

RETRY_SECONDS = 0.25  # before a journal is read again that could not be reached

ReadJournal = Callable[[int], Awaitable[JournalSlice]]


class Subscription(EventQueue):
    """Listens to a running turn.

    A listener that falls behind reads what it missed from the journal, in chunks, so a slow client
    needs no more memory and misses nothing. If the journal has a gap, the stream ends there.
    """

    __slots__ = ("_position", "_read_journal", "_stream")

    def __init__(self, stream: "TurnStream", read_journal: ReadJournal, after: int | None) -> None:
        super().__init__(
            stream.turn_id,
            ended=stream.ended,
            position=stream.last_number if after is None else after,
            is_behind=after is not None and after < stream.journalled,
        )
        self._stream = stream
        self._read_journal = read_journal
        self._position = 0

    def close(self) -> None:
        """Stop listening. Idempotent."""
        super().close()
        self._stream.unsubscribe(self)

    def _can_be_caught_up(self, events: Sequence[NumberedEvent]) -> bool:
        """Return whether the events are in the journal."""
        return events[-1].number <= self._stream.journalled

    async def _catch_up(self) -> Sequence[NumberedEvent]:
        """Return the next chunk of missed events; there may be more."""
        missed: list[NumberedEvent] = []
        while not missed:
            try:
                passage = await self._read_journal(self._position)
            except StorageUnavailable:
                if not self.has_ended:
                    await asyncio.sleep(RETRY_SECONDS)
                    return missed
                passage = JournalSlice([], self._position)
            if not passage.entries:
                break
            self._position = passage.position
            missed = numbered_events(passage.entries, after=self._taken)
        taken = missed[-1].number if missed else self._taken
        self._is_behind = bool(missed) and taken < self._stream.journalled
        if not missed and taken < self._stream.journalled:
            # What should be there and is not will not come either.
            self._pending.clear()
            self.has_ended = True
            self._stream.unsubscribe(self)
            missed = broken_off(self._stream.session_id, after=taken)
        return missed
