"""Declares the port of journals: append-only event logs of turns, readable from any process.

A store may keep lines asynchronously, after ``append`` has returned (docs/decisions/0044).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

PASSAGE_BYTES = 256 * 1024

END_EVENT = "done"
"""The event that ends a journal."""

END_LINE = '{"n":', f',"event":"{END_EVENT}",'
"""The start of the line that ends a journal, before and after its number, as ``line`` formats it.
Stores search for it without decoding the line."""


class Entry(msgspec.Struct, frozen=True):
    """Represents one line of a journal.

    Attributes:
        n: The event's number, from 1 without gaps; 0 for a note, which is not sent to clients.
        event: The name of the event or note.
        data: The payload as JSON, byte for byte as sent.
    """

    n: int
    event: str
    data: msgspec.Raw

    def value(self) -> Mapping[str, Any]:
        """Return the payload as an object."""
        decoded: Mapping[str, Any] = msgspec.json.decode(self.data)
        return decoded


class JournalSlice(msgspec.Struct, frozen=True):
    """Holds consecutive whole entries of a journal, and the position after the last one."""

    entries: Sequence[Entry]
    position: int


def do_nothing() -> None:
    """Do nothing; the default callback for stored lines."""


class Fenced(OSError):
    """Raised when another process took the journal over and ends the turn."""


class OwnerExpired(OSError):
    """Raised when others declared the process dead: no turn may begin under its old id."""


class JournalTimedOut(OSError):
    """Raised when the journal's store was unreachable for longer than the timeout."""


class JournalLost(OSError):
    """Reports that the store has lost the journal; the turn goes on for its current listeners."""


def ignore_error(error: OSError) -> None:
    """Do nothing; the default failure callback of a writer."""


class JournalWriter(Protocol):
    """Writes one turn's journal. Calls not documented as blocking take microseconds.

    Attributes:
        is_synchronous: Whether lines are stored, and ``kept`` was called, when ``append`` returns.
    """

    is_synchronous: bool

    def append(self, lines: str, kept: Callable[[], None] = do_nothing) -> None:
        """Write whole lines, as made by ``line``; call ``kept`` once they outlive this process.

        ``kept`` is called before ``append`` returns, or later on the event loop, in the order of
        the calls. Events are not sent to clients before that.

        Raises:
            OSError: These or earlier lines could not be written; ``kept`` will not be called for
                any line still unacknowledged.
        """

    def on_failure(self, call: Callable[[OSError], None]) -> None:
        """Call ``call`` on the event loop with the error after which nothing more can be stored.

        Later calls of ``append`` raise the same error. After ``JournalLost`` nothing is raised;
        instead ``kept`` is called for all pending and all later lines, though they are not stored.
        """

    async def flushed(self) -> None:
        """Wait until all lines are stored; raises as ``append``."""

    def sync(self) -> None:
        """Make stored lines survive a power cut. Blocks."""

    def close(self) -> None:
        """Stop writing; the journal stays readable. Closing twice is harmless."""


class JournalReader(Protocol):
    """Reads journals of this and other processes. All calls but ``watch`` block."""

    def read(self, session_id: str, turn_id: str, position: int = 0) -> JournalSlice:
        """Return whole entries from a position on (0 is the beginning), notes included.

        Returns at most ``PASSAGE_BYTES``, or one entry that is longer; no entries if there are no
        more yet. A missing journal counts as empty; an incomplete last line is left out.
        """

    def watch(
        self, session_id: str, turn_id: str, changed: Callable[[], object]
    ) -> Callable[[], None]:
        """Call ``changed``, in another thread, now and after changes; return a stop function."""

    def has_ended(self, session_id: str, turn_id: str) -> bool:
        """Return whether the journal's last entry is ``done``."""

    def is_being_written(self, session_id: str, turn_id: str) -> bool:
        """Return whether the journal's writer is open in a living process."""

    def was_closed(self, session_id: str, turn_id: str) -> bool:
        """Return whether the journal exists and nothing writes it any more."""

    def turns(self, session_id: str) -> Sequence[str]:
        """Return the session's turns that have a journal, oldest first."""

    def all_turns(self) -> set[str]:
        """Return every turn that has a journal, including those of other servers."""

    def unended_sessions(self) -> Sequence[str]:
        """Return the sessions with a journal that has neither an end nor a writer.

        Cheap enough for every second: one query for the unended journals, and one for each process
        that was writing them.
        """


class JournalQuarantine(Protocol):
    """Moves unreadable parts of dead writers' journals to a quarantine. All calls block.

    What is there stays until the session is deleted.
    """

    def adopt(self, session_id: str, turn_id: str) -> None:
        """Treat a dead turn's journal as one of this server, because its claim is."""

    def set_aside(self, session_id: str, turn_id: str, is_sound: Callable[[Entry], bool]) -> bool:
        """Move unreadable lines to where nothing reads them.

        The positions of the remaining lines do not change.

        Args:
            session_id: The session.
            turn_id: The turn.
            is_sound: Returns whether an entry can be read; invalid lines are always moved.

        Returns:
            Whether any lines were moved.
        """

    def copy_aside(self, session_id: str, turn_id: str) -> None:
        """Copy a journal to where only the deletion of its session removes it."""

    def move_aside(self, session_id: str, turn_id: str) -> None:
        """Move a whole journal to where nothing reads it."""

    def broken(self) -> Sequence[str]:
        """Return where quarantined journals and lines are, as text for people."""


class TurnJournal(JournalReader, JournalQuarantine, Protocol):
    """Stores journals. All calls but ``watch`` block for milliseconds: call them from a thread.

    The storage may also have journals of other or newer servers. Those are left alone, and are
    listed by ``all_turns`` only.
    """

    def open(self, session_id: str, turn_id: str, *, owner: str) -> JournalWriter:
        """Create the journal of a new turn for the process that owns its claim.

        Raises:
            OwnerExpired: Other processes declared the owner dead; it has a new id by now.
            StorageError: The journal can't be created.
        """

    def take_over(self, session_id: str, turn_id: str) -> JournalWriter:
        """Continue a journal whose writer died, after fencing that writer off for good.

        What is read from now on does not change until the next takeover. The returned writer is
        synchronous, and raises ``Fenced`` once another process took the journal over.
        """

    def reopen(self, session_id: str, turn_id: str, *, owner: str) -> JournalWriter:
        """Go on with a journal whose writer died, for the process that goes on with its turn.

        Raises:
            Fenced: A living process writes it; one of several callers at once is that process.
            FileNotFoundError: There is no such journal; its store may have lost it.
            OwnerExpired: As ``open`` raises it.
        """

    def discard(self, session_id: str, turn_id: str) -> None:
        """Delete one turn's journal, unless it is being written."""

    def discard_session(self, session_id: str) -> None:
        """Delete a session's journals except those being written, and what was set aside."""

    def sweep(self, older_than_seconds: float) -> int:
        """Delete journals that ended longer ago than that; return how many."""


def whole_journal(journal: TurnJournal, session_id: str, turn_id: str) -> Iterator[Entry]:
    """Yield every entry of a journal, with at most one passage in memory. Blocks."""
    position = 0
    while (passage := journal.read(session_id, turn_id, position)).entries:
        yield from passage.entries
        position = passage.position


def line(number: int, name: str, data: str) -> str:
    """Format an entry as a line; ``data`` is one line of ASCII JSON."""
    return f'{{"n":{number},"event":"{name}","data":{data}}}\n'


def lines_of(entries: Iterable[Entry]) -> str:
    """Format entries as lines."""
    return "".join(line(each.n, each.event, bytes(each.data).decode("ascii")) for each in entries)
