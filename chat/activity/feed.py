"""Delivers the changes of all processes to the listeners of this one (docs/decisions/0073).

While nobody listens, there is no task and no log, and no thread wakes.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakSet

from chat.activity.events import ActivityEvent, Reset, event_of
from chat.activity.listener import ActivityListener
from chat.activity.states import StateReader
from chat.errors import ShuttingDown, TooManyListeners
from chat.storage.change_log import KINDS, Change, ChangeLog
from chat.stream.encoding import ascii_json
from chat.stream.numbered_event import NumberedEvent
from sessions_app.errors import SessionError, SessionNotFound, StorageError
from sessions_app.format.to_json import listing_entry

logger = logging.getLogger(__name__)

PASSAGE = 500
"""The changes that are read at once."""
MOST_REPLAYED = 2_000
"""The changes that somebody who comes back is told; after more of them the list is cheaper."""
GATHER_SECONDS = 0.02
"""Changes that come within so long are read together: a way to a thread costs more than they do."""
PAUSE_SECONDS = 0.1
MANY = 20
LONG_PAUSE_SECONDS = 0.25
"""While changes come and come, they are read so often, and less often if there were many: so most
of the cost is that of the sessions, and what is said of one over and over is said once
(docs/decisions/0096)."""
KEEP_SECONDS = 60.0
"""The interval at which the log is told that somebody listens."""
RETRY_SECONDS = 1.0


class ActivityFeeds(WeakSet["ActivityFeed"]):
    """The feeds of all owners of data in this process."""

    @property
    def listener_count(self) -> int:
        """The number of those who listen to any of them."""
        return sum(feed.listener_count for feed in self)


class ActivityFeed:
    """Keeps the listeners of this process, and sends them the changes of all processes.

    Each change is looked at once, for all who listen: what they are told is how the session is by
    then, which is what the change made of it or newer. So whatever order changes come in, the last
    word on a session is right.

    Args:
        changes: The log of changes.
        states: Reads sessions with their states.
        most_listeners: How many may listen at once.
        feeds: Those of all owners, whose listeners count together; None for this one alone.

    Attributes:
        states: As given.
    """

    def __init__(
        self,
        changes: ChangeLog,
        states: StateReader,
        *,
        most_listeners: int,
        feeds: ActivityFeeds | None = None,
    ) -> None:
        self._feeds = ActivityFeeds() if feeds is None else feeds
        self._feeds.add(self)
        self.states = states
        self._changes = changes
        self._most_listeners = most_listeners
        self._listeners: set[ActivityListener] = set()
        self._entering = 0
        self._reading = asyncio.Lock()
        self._position: str | None = None
        self._number = 0
        self._stop: Callable[[], None] | None = None
        self._is_told = False
        self._closed = False

    @property
    def listener_count(self) -> int:
        """The number of those who listen here, or are about to."""
        return len(self._listeners) + self._entering

    async def listen(self, after: str = "") -> ActivityListener:
        """Listen to what changes from now on, or to what came after an id.

        Args:
            after: The id of the last event that was received; none for a first connection.

        Raises:
            ShuttingDown: This process stops.
            TooManyListeners: As many as may listen do so.
            StorageError: The log of changes can't be kept.
        """
        if self._is_closed():
            raise ShuttingDown
        if self._feeds.listener_count >= self._most_listeners:
            raise TooManyListeners(self._most_listeners)
        self._entering += 1
        try:
            async with self._reading:
                position = await self._up_to_date()
                missed = await self._missed(after, position)
                listener = ActivityListener(self._leave, self._begin_anew)
                listener.push(missed)
                self._listeners.add(listener)
        finally:
            self._entering -= 1
            self._stop_if_unheard()
        if self._is_closed():  # meanwhile
            listener.end()
        return listener

    def close(self) -> None:
        """End all streams, and take no more listeners."""
        self._closed = True
        for listener in self._listeners:
            listener.end()
        self._unfollow()

    def _is_closed(self) -> bool:
        return self._closed

    async def _up_to_date(self) -> str:
        """Begin to follow the log, or read on to its end; return the position."""
        if self._position is None:
            self._position = await asyncio.to_thread(self._changes.open)
            self._follow()
        else:
            await self._catch_up()
        return self._position

    def _follow(self) -> None:
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            if not self._is_told:  # which ends before the log is read: nothing is missed
                self._is_told = True
                loop.call_soon_threadsafe(news.set)

        self._is_told = False

        unfollow = self._changes.follow(tell)
        task = loop.create_task(self._run(news))

        def stop() -> None:
            unfollow()
            task.cancel()

        self._stop = stop

    def _leave(self, listener: ActivityListener) -> None:
        self._listeners.discard(listener)
        self._stop_if_unheard()

    def _stop_if_unheard(self) -> None:
        if not self._listeners and not self._entering:
            self._unfollow()

    def _unfollow(self) -> None:
        self._position = None
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    async def _run(self, news: asyncio.Event) -> None:
        """Read the log whenever there is more of it, and keep it."""
        loop = asyncio.get_running_loop()
        kept_at, timeout = loop.time(), KEEP_SECONDS
        read_next = kept_at
        while True:
            try:
                async with asyncio.timeout(timeout):
                    await news.wait()
                await asyncio.sleep(max(GATHER_SECONDS, read_next - loop.time()))
            except TimeoutError:
                pass
            news.clear()
            self._is_told = False
            try:
                if loop.time() - kept_at >= KEEP_SECONDS:
                    await asyncio.to_thread(self._changes.open)
                    kept_at = loop.time()
                async with self._reading:
                    count = await self._catch_up()
                if count:
                    pause = PAUSE_SECONDS if count < MANY else LONG_PAUSE_SECONDS
                    read_next = loop.time() + pause
                timeout = KEEP_SECONDS
            except Exception as error:
                if timeout != RETRY_SECONDS:
                    expected = isinstance(error, StorageError)
                    logger.warning("changes can't be read just now", exc_info=not expected)
                timeout = RETRY_SECONDS

    async def _catch_up(self) -> int:
        """Tell all who listen what the log has since the last time; return how many events."""
        is_all, count = False, 0
        while not is_all and self._position is not None:
            news = await asyncio.to_thread(self._read_on, self._position)
            self._position, events, is_all = news
            count += len(events)
            for listener in tuple(self._listeners):
                listener.push(events)
        return count

    def _read_on(self, position: str) -> tuple[str, Sequence[NumberedEvent], bool]:
        """Return the position after the next changes, what is told of them, whether it is all.

        Blocks; all in one go, because each way to a thread costs as much as the rest.
        """
        changes = self._changes.read(position, PASSAGE)
        if changes is None:
            position = self._changes.open()
            return position, [self._event(position, Reset())], True
        if not changes:
            return position, (), True
        return changes[-1].id, self._told(changes), len(changes) < PASSAGE

    async def _missed(self, after: str, position: str) -> Sequence[NumberedEvent]:
        """Return what came after an id, up to where all others are."""
        if after == position:
            return ()
        missed: list[Change] = []
        while after:
            changes = await asyncio.to_thread(self._changes.read, after, PASSAGE)
            if not changes:
                break
            missed += changes
            if len(missed) > MOST_REPLAYED:
                break
            ends = [n for n, change in enumerate(missed, 1) if change.id == position]
            if ends:
                return await asyncio.to_thread(self._told, missed[: ends[0]])
            after = changes[-1].id
        return [self._event(position, Reset())]

    def _told(self, changes: Sequence[Change]) -> list[NumberedEvent]:
        """Return what is told of some changes. Blocks."""
        known = [change for change in changes if change.kind in KINDS]
        last = {change.session_id: change.id for change in known}
        wanted = [
            change
            for change in known
            # What follows says what this one could say.
            if change.kind != "changed" or last[change.session_id] == change.id
        ]
        listed = self._listed({change.session_id for change in wanted})
        return [
            self._event(change.id, event_of(change, listed.get(change.session_id)))
            for change in wanted
        ]

    def _listed(self, session_ids: set[str]) -> Mapping[str, Mapping[str, Any] | Reset]:
        """Return sessions as lists have them; those that are gone are missing. Blocks.

        For one that can't be read the list has to be loaded, which says so.
        """
        found: dict[str, Mapping[str, Any] | Reset] = {}
        for session_id in session_ids:
            try:
                metadata, state = self.states.look(session_id)
            except SessionNotFound:
                continue
            except SessionError:
                found[session_id] = Reset()
                continue
            found[session_id] = {**listing_entry(metadata), "state": state}
        return found

    def _event(self, place: str, event: ActivityEvent) -> NumberedEvent:
        """Return an event as all who listen get it, encoded once."""
        self._number += 1
        data = ascii_json(event)
        frame = f"id: {place}\nevent: {event.event}\ndata: {data}\n\n"
        return NumberedEvent(self._number, event.event, data, frame)

    def _begin_anew(self, instead_of: NumberedEvent) -> NumberedEvent:
        """Return what a listener gets in the place of this event and all that waits before it."""
        place = instead_of.frame.partition("\n")[0].removeprefix("id: ")
        data = ascii_json(Reset())
        frame = f"id: {place}\nevent: {Reset.event}\ndata: {data}\n\n"
        return NumberedEvent(instead_of.number, Reset.event, data, frame)
