"""Declares the port for journals: append-only records of turns, readable from any process.

A store may keep lines a moment after they were appended (docs/decisions/0044).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

PASSAGE_BYTES = 256 * 1024


class Entry(msgspec.Struct, frozen=True):
    """Represents one line of a journal.

    Attributes:
        n: The event's number, from 1 without gaps; 0 for a note, which is not sent to clients.
        event: The event's name, or the note's.
        data: The payload as JSON, byte for byte as it was sent.
    """

    n: int
    event: str
    data: msgspec.Raw

    def value(self) -> Mapping[str, Any]:
        """Return the payload as an object."""
        decoded: Mapping[str, Any] = msgspec.json.decode(self.data)
        return decoded


class Passage(msgspec.Struct, frozen=True):
    """Holds a stretch of a journal: whole entries, and the position behind the last of them."""

    entries: Sequence[Entry]
    position: int


def do_nothing() -> None:
    """Do nothing; called when lines are kept that nothing waits for."""


class Fenced(OSError):
    """Raised when the journal was taken over: another process ends the turn."""


class OwnerCondemned(OSError):
    """Raised when others took the process for dead: no turn begins under its old id."""


class JournalAway(OSError):
    """Raised when the store of the journal could not be reached for longer than a turn bears."""


class JournalLost(OSError):
    """Says that the store has lost the journal, whose turn goes on for those who listen to it."""


def ignore_trouble(error: OSError) -> None:
    """Do nothing; for writers that nobody wants to hear of."""


class JournalWriter(Protocol):
    """Writes one turn's journal. Calls that do not say that they block take microseconds.

    Attributes:
        keeps_at_once: Whether what was appended is kept when ``append`` returns; ``kept`` was
            called by then.
    """

    keeps_at_once: bool

    def append(self, lines: str, kept: Callable[[], None] = do_nothing) -> None:
        """Write whole lines, as ``line`` makes them; call ``kept`` once they outlive this process.

        That may be before ``append`` returns, or later on the event loop, in the order of the
        calls. Nothing is shown to anyone before it is kept.

        Raises:
            OSError: These or earlier lines could not be written: for none of those that are not
                kept yet, ``kept`` will be called.
        """

    def when_troubled(self, call: Callable[[OSError], None]) -> None:
        """Have ``call`` called, on the event loop, once it turns out that no more can be kept.

        What ``append`` raises from then on, it gets; that may be a while before the next append.
        After ``JournalLost`` nothing is raised, and ``kept`` is called for what nothing keeps: for
        lines that wait and for all that come.
        """

    async def flushed(self) -> None:
        """Wait until all lines are kept; raises as ``append``."""

    def sync(self) -> None:
        """Make what is kept survive a power cut. Blocks."""

    def close(self) -> None:
        """Stop writing; the journal stays readable. Closing twice is harmless."""


class JournalReader(Protocol):
    """Reads journals of this and other processes. All calls but ``watch`` block."""

    def read(self, session_id: str, turn_id: str, position: int = 0) -> Passage:
        """Return whole entries from a position on (0 is the beginning), notes included.

        At most ``PASSAGE_BYTES`` at a time, or one entry that is longer; a passage without entries
        means that there are no more now. A journal that does not exist is empty; a torn last line
        is not there yet.
        """

    def watch(
        self, session_id: str, turn_id: str, changed: Callable[[], object]
    ) -> Callable[[], None]:
        """Call ``changed``, in another thread, now and after changes; return how to stop."""

    def has_ended(self, session_id: str, turn_id: str) -> bool:
        """Return whether the journal's last entry is ``done``."""

    def is_being_written(self, session_id: str, turn_id: str) -> bool:
        """Return whether its writer is open still; one whose process died is not."""

    def was_closed(self, session_id: str, turn_id: str) -> bool:
        """Return whether there is a journal whose writer is gone: nothing more comes of it."""

    def turns(self, session_id: str) -> Sequence[str]:
        """Return the session's turns that have a journal, oldest first."""

    def all_turns(self) -> set[str]:
        """Return every turn that has a journal, other servers' included."""

    def unended_sessions(self) -> Sequence[str]:
        """Return the sessions with a journal without an end, whose writer is gone.

        That is asked every second where turns die with machines: it takes one look at what has no
        end, and one at each process that was writing.
        """


class JournalQuarantine(Protocol):
    """Sets aside what can't be read of journals whose writer died. All calls block."""

    def adopt(self, session_id: str, turn_id: str) -> None:
        """Take a dead turn's journal for ours: a claim of ours names it."""

    def set_aside(self, session_id: str, turn_id: str, is_sound: Callable[[Entry], bool]) -> bool:
        """Put lines that can't be read where nothing reads or removes them.

        Positions in what stays do not change.

        Args:
            session_id: The session.
            turn_id: Its turn.
            is_sound: Whether an entry can be read; lines that are no entries can't be.

        Returns:
            Whether there were any.
        """

    def copy_aside(self, session_id: str, turn_id: str) -> None:
        """Keep a copy of a journal that nothing removes."""

    def move_aside(self, session_id: str, turn_id: str) -> None:
        """Put a whole journal where nothing reads or removes it."""

    def broken(self) -> Sequence[str]:
        """Return where what was set aside is, in words for people."""


class TurnJournal(JournalReader, JournalQuarantine, Protocol):
    """Keeps journals. All calls but ``watch`` block for milliseconds: call them from a thread.

    Journals may lie beside those of other sessions' servers, and of newer ones: what can't be ours
    is in no list but ``all_turns``, and is left alone.
    """

    def open(self, session_id: str, turn_id: str, *, owner: str) -> JournalWriter:
        """Begin the journal of a new turn, of the process that owns its claim.

        Raises:
            OwnerCondemned: Others took the owner for dead; it has a new id by now.
            StorageError: No journal can be begun.
        """

    def take_over(self, session_id: str, turn_id: str) -> JournalWriter:
        """Go on with a journal whose writer died, after keeping that writer out for good.

        What is read from now on stays as it is, until it is taken over once more. The writer keeps
        lines before ``append`` returns, and raises ``Fenced`` when the journal was taken over.
        """

    def discard(self, session_id: str, turn_id: str) -> None:
        """Forget one turn's journal, unless it is being written."""

    def discard_session(self, session_id: str) -> None:
        """Forget all journals of a session but those that are being written."""

    def sweep(self, older_than_seconds: float) -> int:
        """Forget journals that ended longer ago than that; return how many."""


def whole_journal(journal: TurnJournal, session_id: str, turn_id: str) -> Iterator[Entry]:
    """Yield every entry of a journal, of which no more than a passage is in memory. Blocks."""
    position = 0
    while (passage := journal.read(session_id, turn_id, position)).entries:
        yield from passage.entries
        position = passage.position


def line(number: int, name: str, data: str) -> str:
    """Return an entry as a line; ``data`` is one line of ASCII JSON."""
    return f'{{"n":{number},"event":"{name}","data":{data}}}\n'


def lines_of(entries: Iterable[Entry]) -> str:
    """Return entries as lines."""
    return "".join(line(each.n, each.event, bytes(each.data).decode("ascii")) for each in entries)
