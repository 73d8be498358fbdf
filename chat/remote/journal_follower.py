"""Streams a turn from its journal: a turn that runs in another process, or has ended."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from chat.storage.journal import Entry, TurnJournal
from chat.stream.encoding import encode_event
from chat.stream.events import Done
from chat.stream.heartbeat import HEARTBEAT_SECONDS
from chat.stream.journal_errors import interrupted_events
from chat.stream.numbered_event import NumberedEvent, Push, numbered_events
from sessions_app.errors import StorageUnavailable

LIVENESS_SECONDS = 1.0
AWAY_SECONDS = 30.0
"""The time that a listener waits for a journal whose store can't be reached."""


class JournalFollower:
    """Listens to a turn from an event number on: reads its journal, then follows it.

    Numbers have no gaps. If a store has lost a part of the journal, the listener gets the end of an
    interrupted turn instead of the later events, so that no text is incomplete without a notice.

    Args:
        session_id: The session.
        turn_id: Its turn.
        after: The last event number that the listener has.
        journal: Where the turn is journalled.
        settle: Awaited after each silence; seals the turn if its owner died, and returns whether
            it still runs.
        settle_seconds: The length of these silences.
    """

    def __init__(
        self,
        *,
        session_id: str,
        turn_id: str,
        after: int,
        journal: TurnJournal,
        settle: Callable[[], Awaitable[bool]],
        settle_seconds: float = LIVENESS_SECONDS,
    ) -> None:
        self._session_id = session_id
        self.turn_id = turn_id
        self._after = after
        self._journal = journal
        self._settle = settle
        self._settle_seconds = settle_seconds
        self._position = 0
        self._last_number = 0
        self._away_since: float | None = None
        self._ended = False
        self._read_ahead: list[Entry] = []
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._last_sent = self._loop.time()
        self._stop_watching = journal.watch(session_id, turn_id, self._notice)

    async def begun(self) -> bool:
        """Wait for the turn's first event; return False if the turn ends without any."""
        while (entries := await self._fetch()) is not None:
            self._read_ahead += entries
            if any(entry.n for entry in entries):
                return True
        return False

    async def next(self, _: Push | None = None, /) -> Sequence[NumberedEvent] | None:
        """Wait for the next events; return none after 15 s of silence, None after the last one.

        They are read in a thread, so that none is pushed.
        """
        while (entries := await self.next_entries()) is not None:
            events = numbered_events(entries, after=self._after)
            if events:
                self._last_sent = self._loop.time()
                return events
            if not entries:
                return ()
        return None

    async def next_entries(self) -> Sequence[Entry] | None:
        """Wait for the next entries, including notes.

        Returns:
            No entries after 15 s of silence, and None after the last one.
        """
        if self._read_ahead:
            entries, self._read_ahead = self._read_ahead, []
            return entries
        return await self._fetch()

    def close(self) -> None:
        """Stop listening."""
        self._stop_watching()

    async def _fetch(self) -> Sequence[Entry] | None:
        running = True
        while not self._ended:
            self._changed.clear()
            entries = await self._read()
            if entries:
                return entries
            if not running or self._is_given_up():  # sealed, or swept, and nothing more came
                return self._last_words()
            silence = self._loop.time() - self._last_sent
            if silence >= HEARTBEAT_SECONDS:
                self._last_sent = self._loop.time()
                return []
            try:
                async with asyncio.timeout(min(self._settle_seconds, HEARTBEAT_SECONDS - silence)):
                    await self._changed.wait()
            except TimeoutError:
                running = await self._still_runs()
        return None

    async def _still_runs(self) -> bool:
        try:
            return await self._settle()
        except StorageUnavailable:  # whoever can't be asked has not died
            return True

    async def _read(self) -> Sequence[Entry]:
        try:
            passage = await asyncio.to_thread(
                self._journal.read, self._session_id, self.turn_id, self._position
            )
        except StorageUnavailable:
            self._away_since = self._away_since or self._loop.time()
            return []
        self._away_since = None
        self._position = passage.position
        for index, entry in enumerate(passage.entries):
            if entry.n > self._last_number + 1:
                return [*passage.entries[:index], *(self._last_words() or ())]
            self._last_number = entry.n or self._last_number
            self._ended = self._ended or entry.event == Done.event
        return passage.entries

    def _is_given_up(self) -> bool:
        """Return whether the journal's store was unreachable for too long."""
        away = self._away_since
        return away is not None and self._loop.time() - away >= AWAY_SECONDS

    def _last_words(self) -> Sequence[Entry] | None:
        """Return the last events for a turn that can't be sealed yet; None if it has no event."""
        self._ended = True
        if not self._last_number:
            return None
        events = interrupted_events(self._session_id)
        return [
            Entry(number, event.event, msgspec.Raw(encode_event(event).encode()))
            for number, event in enumerate(events, self._last_number + 1)
        ]

    def _notice(self) -> None:
        """Wake ``next``; called from the watcher's thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)
