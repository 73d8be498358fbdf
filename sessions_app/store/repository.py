"""Declares the port of the session store, and the values that cross it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from sessions_app.errors import SessionNotFound
from sessions_app.ids_and_clock import is_session_id
from sessions_app.messages import NO_EXTRA
from sessions_app.session import Session, SessionMetadata
from sessions_app.store.owners import Owners

Result = TypeVar("Result")


class Hold(NamedTuple):
    """A turn, and the process whose claim it must have to write.

    The turn alone is not enough: it may go on in another process, and then the first one, which
    was only frozen, wakes up.
    """

    turn_id: str
    owner: str


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The record that a session has a running turn.

    Attributes:
        session_id: The session.
        turn_id: The running turn; empty if a crash of the machine lost the record.
        owner: The id of the process that runs the turn; empty if lost.
        started_at: When the turn began (UTC, ISO 8601); empty if lost.
        begun: The tool calls that have begun, named by ``named_call``, if the repository
            ``keeps_begun``.
        alive: Whether the owner is alive and runs the turn; otherwise the claim is void.
        is_known: Whether the record's version is known. If not, only ``owner`` and ``alive`` are
            reliable, and ``turn_id`` is a guess.
    """

    session_id: str
    turn_id: str
    owner: str
    started_at: str
    begun: Sequence[str] = ()
    alive: bool = True
    is_known: bool = True

    @property
    def hold(self) -> Hold:
        """The turn and the process that have the claim."""
        return Hold(self.turn_id, self.owner)


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """A file that looks like a session's but can't be read as one."""

    file: str
    reason: str


Found = SessionMetadata | Unreadable
"""The result of reading a file for a listing."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The readable sessions, most recently updated first, and the files that are not.

    Attributes:
        sessions: The metadata of sessions.
        unreadable: The files that can't be read as sessions.
        complete: Whether all are included: False while an index is being rebuilt.
        stamps: A text for each id of a session, which differs after each change of the session.
    """

    sessions: Sequence[SessionMetadata]
    unreadable: Sequence[Unreadable]
    complete: bool = True
    stamps: Mapping[str, str] = NO_EXTRA


def listing_of(
    files: Iterable[Found], stamps: Mapping[str, str] = NO_EXTRA, *, complete: bool = True
) -> Listing:
    """Return a listing of what was read; ids order sessions of the same time."""
    sessions: list[SessionMetadata] = []
    unreadable: list[Unreadable] = []
    for file in files:
        if isinstance(file, SessionMetadata):
            sessions.append(file)
        else:
            unreadable.append(file)
    sessions.sort(key=lambda each: (each.updated_at, each.session_id), reverse=True)
    unreadable.sort(key=lambda each: each.file)
    return Listing(
        sessions=tuple(sessions), unreadable=tuple(unreadable), complete=complete, stamps=stamps
    )


Change = Callable[[Session], Session]
"""Returns the changed session, or raises to refuse the change.

It is a pure function without I/O, because it is called again with a newer session if another
process was faster with its own change (docs/decisions/0047)."""

Opening = Callable[[Session], tuple[Session, Result]]
"""A ``Change`` made together with a claim. It also returns a result, which ``claim`` returns from
the last call, so that the change needs no side effects."""

Check = Callable[[Session], object]
"""Checks a session just before its deletion; raises to refuse it."""

Recover = Callable[[Session, Claim], Session]
"""Returns the session recovered from a dead turn, before any other change. The result is saved
before the dead claim is removed, so it runs again after a crash in between and must be idempotent.
Like a ``Change``, it may be called several times."""


class SessionReader(Protocol):
    """Reads sessions.

    Calls of the whole port block for milliseconds: make them in a thread. Those that take the id of
    a session raise ``SessionNotFound`` if it is unknown or malformed, and ``SessionCorrupt`` if
    the session can't be read.
    """

    def load(self, session_id: str) -> Session:
        """Return the session."""

    def look(self, session_id: str) -> tuple[SessionMetadata, Claim | None]:
        """Return the session's metadata and claim, which costs less than loading the session."""

    def recall(self, session_id: str) -> Session | None:
        """Return the session from the cache, if it is there; it may be stale.

        Does not block or raise, so no thread is needed.
        """

    def list(self, *, anew: bool = False) -> Listing:
        """Return all sessions, reading only those that changed since the last call.

        Args:
            anew: Whether to look for changes by other programs first, even if that takes long.
        """

    def deleted_at(self, session_id: str) -> str | None:
        """Return when the session was deleted (UTC, ISO 8601).

        Returns None if it was not, or long ago: a missing session may be temporarily unavailable.
        """

    def can_hold(self, session: Session) -> bool:
        """Return whether a recovery could save the session as it is now.

        Some space above the limit of other changes is reserved for recoveries.
        """


class SessionClaims(Protocol):
    """Claims sessions for turns, one at a time: ``SessionBusy`` while another owner lives."""

    owners: Owners
    keeps_begun: bool
    """True if claims record the calls that have begun; otherwise only the turn's journal does."""

    def claim(
        self,
        session_id: str,
        turn_id: str,
        *,
        owner: str,
        change: Opening[Result],
        recover: Recover | None = None,
        new: Session | None = None,
    ) -> tuple[Session, Result]:
        """Claim the session for a turn of ``owner`` and change it.

        A dead turn is recovered first. If ``change`` raises, the session is neither changed nor
        claimed. With ``new`` the session is created; raises ``SessionExists`` if its id is taken.

        Returns:
            The changed session and the result of ``change``.
        """

    def release(self, session_id: str, hold: Hold) -> None:
        """Release that claim; do nothing if it is not the current one."""

    def sync_claims(self) -> None:
        """Make the claims made so far survive a power cut."""

    def claim_of(self, session_id: str) -> Claim | None:
        """Return the claim on the session, dead or alive, or None."""

    def load_claimed(self, session_id: str) -> tuple[Session, Claim | None]:
        """Return the session and the claim on it, dead or alive."""

    def claims(self) -> Sequence[Claim]:
        """Return every claim, dead or alive."""


class SessionRepository(SessionReader, SessionClaims, Protocol):
    """Stores sessions.

    Writes raise ``StorageFull``, and ``SessionReadOnly`` if the session's format has another major
    version, except that ``delete`` removes any session.
    """

    def create(self, session: Session) -> None:
        """Store a new session; raises ``SessionExists`` if its id is taken."""

    def update(
        self,
        session_id: str,
        change: Change,
        *,
        hold: Hold | None = None,
        release: bool = False,
        begun: Sequence[str] = (),
        owner: str | None = None,
    ) -> Session:
        """Change the session, and return it.

        With ``hold`` the session must have that claim (``SessionBusy`` otherwise), which
        ``release`` removes, and ``owner`` gives to that process. ``begun`` names calls about to
        run: the claim records them, if the repository ``keeps_begun``: they never run again.
        """

    def update_idle(
        self, session_id: str, change: Change, *, recover: Recover | None = None
    ) -> Session:
        """Change the session while no turn runs, after recovering a dead turn."""

    def delete(self, session_id: str, *, check: Check | None = None) -> None:
        """Delete the session, valid or not, while no turn runs.

        With ``check`` the session must be valid; an error raised by ``check`` keeps it.
        """

    def sweep(self) -> int:
        """Remove old records of deletions; return how many."""


def require_session_id(session_id: str) -> None:
    """Raise ``SessionNotFound`` for an invalid id, which must not be used as a path or a key."""
    if not is_session_id(session_id):
        raise SessionNotFound(session_id)
