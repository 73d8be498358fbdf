"""Numbers and journals the events of a running turn, and delivers them to its listeners."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from chat.errors import TurnLimitReached, TurnLost
from chat.storage.journal import Fenced, JournalLost, JournalWriter, do_nothing, line
from chat.stream.encoding import ascii_json, encode_event
from chat.stream.event_queue import MAX_PENDING_BYTES
from chat.stream.events import Event
from chat.stream.journal_errors import error_of
from chat.stream.notes import Note
from chat.stream.numbered_event import NumberedEvent
from chat.stream.subscription import ReadJournal, Subscription
from sessions_app.errors import MochiError, StorageError

logger = logging.getLogger(__name__)

MAX_TURN_BYTES = 64 * 1024 * 1024
"""Of journal; some 800,000 tokens. Nothing else ends a model that goes on and on, but time."""

Observe = Callable[[Sequence[Event | Note]], None]
Unkept = tuple[list[NumberedEvent], Sequence[Event], int]
"""Events as they are sent and as they were emitted, and the bytes of journal before them."""


class TurnStream:
    """Numbers and journals the events of one turn, and delivers them.

    An event is sent to listeners once it is in the journal: immediately if the journal is a file,
    otherwise later, in order. A turn that lost its journal continues for the listeners of this
    process.

    Attributes:
        turn_id: The turn.
        session_id: Its session.
        last_number: The number of the newest event that was sent.
        journalled: The number of the newest event in the journal.
        written: The size of the journal in bytes.
        failure: The error of the journal, if it failed. From then on only the last events are sent,
            because clients must be able to get every event again.
        has_room: Whether more can be journalled now; else the model waits or the turn ends.
    """

    __slots__ = (
        "_discard_journal",
        "_failed",
        "_is_left",
        "_is_lost",
        "_is_synchronous",
        "_left",
        "_noted",
        "_numbered",
        "_observer",
        "_read_journal",
        "_subscriptions",
        "_takes_no_more",
        "_unkept",
        "_writer",
        "ended",
        "failure",
        "has_room",
        "journalled",
        "last_number",
        "session_id",
        "turn_id",
        "written",
    )

    def __init__(
        self,
        turn_id: str,
        *,
        session_id: str,
        writer: JournalWriter,
        read_journal: ReadJournal,
        discard_journal: Callable[[], Awaitable[None]],
        last_number: int = 0,
    ) -> None:
        self.turn_id = turn_id
        self.session_id = session_id
        self.last_number = last_number
        self.journalled = last_number
        self.written = 0
        self.ended = False
        self.failure: OSError | None = None
        self.has_room = True
        self._takes_no_more = False
        self._noted: OSError | None = None
        self._is_left = False
        self._is_lost = False
        self._failed: Callable[[MochiError], object] | None = None
        self._writer = writer
        self._is_synchronous = writer.is_synchronous
        self._read_journal = read_journal
        self._discard_journal = discard_journal
        self._subscriptions: tuple[Subscription, ...] = ()
        self._numbered = last_number
        self._unkept: deque[Unkept] = deque()
        self._observer: Observe | None = None
        self._left: Callable[[], None] | None = None
        writer.on_failure(self._take_trouble)

    @property
    def subscriber_count(self) -> int:
        """The number of listeners, including those still reading after the end."""
        return len(self._subscriptions)

    def observe(self, observer: Observe | None) -> None:
        """Call ``observer`` with journalled events and notes, except the last events.

        An agent's turn is reported to the calling turn in this way. None ends it.
        """
        self._observer = observer

    def when_failed(self, call: Callable[[MochiError], object]) -> None:
        """Register a callback for a failure of the journal between writes."""
        self._failed = call

    def emit(self, events: Sequence[Event]) -> bool:
        """Journal events and send them in order, in one write and one delivery per listener.

        Events that can't be journalled are not sent; ``require_room`` then raises.

        Args:
            events: At least one.

        Returns:
            False if the journal can't keep any of them.
        """
        if self.failure is not None or self._is_left:
            return False
        numbered, lines = self._number(events)
        if not self._is_synchronous:
            self._unkept.append((numbered, events, self.written))
            return self._write(lines, self._show_next)
        if not self._write(lines):
            return False
        self._show(numbered, events, journalled=True)
        return True

    async def finish(self, events: Sequence[Event]) -> None:
        """Send the last events, journalled or not, and close the stream.

        After ``leave`` they are not journalled: the journal is ended when it is sealed.

        Raises:
            TurnLost: Another process took the journal over and ends the turn.
        """
        await self.flushed()
        self._require_own()
        if not self._is_left:
            self.failure = None  # there may be space again, and a journal with an end needs no care
            self._judge_room()
        self._observer = None
        if not (self.emit(events) and await self.flushed()):
            self._require_own()
            self._show(self._number(events)[0], events, journalled=False)
        self.close()

    def break_off(self) -> None:
        """End the stream without another event, because another process ends the turn."""
        self._is_left = True
        self._observer = None
        self._unkept.clear()
        self.close()

    async def flushed(self) -> bool:
        """Wait until all events are journalled and sent; return False if the journal failed."""
        if self.failure is None:
            try:
                await self._writer.flushed()
            except OSError as error:
                self._fail(error)
        return self.failure is None

    def leave(self) -> None:
        """Stop journalling a turn that could not be saved; its journal is sealed later."""
        self._is_left = True

    def _number(self, events: Sequence[Event]) -> tuple[list[NumberedEvent], str]:
        """Number events; return them in the forms for listeners and for the journal."""
        number = self._numbered
        numbered: list[NumberedEvent] = []
        lines = ""
        for event in events:
            number += 1
            name = event.event
            data = encode_event(event)
            lines += line(number, name, data)
            numbered.append(NumberedEvent(number, name, data))
        self._numbered = number
        return numbered, lines

    def _show_next(self) -> None:
        """Send the oldest unsent events, which are in the journal now."""
        if not self._unkept:  # it was broken off
            return
        numbered, events, _ = self._unkept.popleft()
        self._show(numbered, events, journalled=True)
        if not self.has_room:
            self._judge_room()

    def _show(
        self, numbered: Sequence[NumberedEvent], events: Sequence[Event], *, journalled: bool
    ) -> None:
        self.last_number = numbered[-1].number
        if journalled and not self._is_lost:
            self.journalled = self.last_number
        for subscription in self._subscriptions:
            subscription.push(numbered)
        if self._observer is not None:
            self._observer(events)

    def note(self, note: Note | Event) -> None:
        """Journal a note for other processes, which is not sent to clients."""
        if self.failure is None and not self._is_left:
            kept = do_nothing if self._observer is None else partial(self._observer, [note])
            self._write(line(0, note.event, ascii_json(note)), kept)

    def take_no_more(self) -> None:
        """Pass the model's output to the turn, which is stopping: ``has_room`` stays False."""
        self._takes_no_more = True
        self.has_room = False

    def _judge_room(self) -> None:
        fits = self.failure is None and self.written <= MAX_TURN_BYTES
        self.has_room = fits and not self.is_congested and not self._takes_no_more

    @property
    def is_congested(self) -> bool:
        """Return whether the model's output must wait for the journal, with ``flushed``."""
        return bool(self._unkept) and self.written - self._unkept[0][2] > MAX_PENDING_BYTES

    def require_room(self) -> None:
        """Check that more can be journalled.

        Raises:
            TurnLost: Another process ends the turn.
            StorageError: The journal could not be written.
            JournalUnavailable: The journal's store was unavailable for too long.
            TurnLimitReached: The journal has reached its maximum size.
        """
        if self.failure is not None:
            raise error_of(self.failure) from self.failure
        if self.written > MAX_TURN_BYTES:
            raise TurnLimitReached(
                f"The turn sent more than {MAX_TURN_BYTES // 2**20} MiB, which is the limit."
            )

    def _require_own(self) -> None:
        """Check that no other process has taken the journal over."""
        if isinstance(self.failure, Fenced) and not self._is_left:
            raise TurnLost from self.failure

    def sync(self) -> None:
        """Sync the journal to disk. Blocks."""
        self._writer.sync()

    async def abandon(self) -> None:
        """End a stream without events, and remove its traces."""
        self.close()
        if self._is_left:  # the journal shows that the turn is over
            return
        try:
            await self._discard_journal()
        except (OSError, StorageError):  # no client saw it, so the next turn's start removes it
            logger.exception("the journal of a refused turn could not be removed")

    def _write(self, lines: str, kept: Callable[[], None] = do_nothing) -> bool:
        try:
            self._writer.append(lines, kept)
        except OSError as error:  # the engine ends the turn because of it
            self._fail(error)
            return False
        self.written = written = self.written + len(lines)
        if not self._is_synchronous or written > MAX_TURN_BYTES:
            self._judge_room()
        return True

    def _take_trouble(self, error: OSError) -> None:
        """Handle a failure of the journal between writes."""
        if isinstance(error, JournalLost):
            self._is_lost = True  # nobody can read again what comes
            return
        if self.failure is None:
            self._fail(error)
        if self._failed is not None:
            self._failed(error_of(error))

    def _fail(self, error: OSError) -> None:
        """Stop sending; the last events get the numbers of those that were not journalled."""
        if error is not self._noted and not isinstance(error, Fenced):  # the turn says that
            logger.error("the journal could not be written", exc_info=error)
        self.failure = self._noted = error
        self.has_room = False
        self._unkept.clear()
        self._numbered = self.last_number

    def subscribe(self, after: int | None = None) -> Subscription:
        """Subscribe to new events, or to all events after number ``after``."""
        subscription = Subscription(self, self._read_journal, after)
        self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Stop sending to a listener. Idempotent."""
        self._subscriptions = tuple(it for it in self._subscriptions if it is not subscription)
        self._notice_left()

    def when_left(self, call: Callable[[], None]) -> None:
        """Register a callback for when the stream has ended and its last listener has closed."""
        self._left = call
        self._notice_left()

    def _notice_left(self) -> None:
        if self._left is not None and self.ended and not self._subscriptions:
            left, self._left = self._left, None
            left()

    def close(self) -> None:
        """End the stream after its last event; listeners get the remaining events first."""
        self.ended = True
        self._failed = None  # its turn, which holds the stream
        try:
            self._writer.close()
        except OSError:  # the descriptor is gone all the same
            logger.exception("the journal could not be closed")
        for subscription in self._subscriptions:
            subscription.end()
