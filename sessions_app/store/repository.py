"""Declares the port to where sessions are kept, and the values that cross it."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from sessions_app.session import Session, SessionMetadata
from sessions_app.store.owners import Owners

Result = TypeVar("Result")


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The record that a session has a running turn.

    Attributes:
        session_id: The session.
        turn_id: Its running turn; empty when a crash of the machine lost the record.
        owner: The process that runs the turn; empty likewise.
        started_at: When the turn began (UTC, ISO 8601); empty likewise.
        begun: The calls that were about to run, as ``named_call`` names them, where the repository
            ``keeps_begun``.
        alive: Whether the owner still lives and runs the turn; else the claim is void.
        is_known: Whether the record's version is known here. If not, only an owner that lives can
            be told from it, and a turn as far as it can be guessed.
    """

    session_id: str
    turn_id: str
    owner: str
    started_at: str
    begun: Sequence[str] = ()
    alive: bool = True
    is_known: bool = True


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """A file that looks like a session's but can't be read as one."""

    file: str
    reason: str


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The readable sessions, most recently updated first, and the files that are not.

    Attributes:
        sessions: The sessions.
        unreadable: The files that can't be read as one.
        complete: Whether that is all: False while an index of them is made anew.
    """

    sessions: Sequence[SessionMetadata]
    unreadable: Sequence[Unreadable]
    complete: bool = True


Change = Callable[[Session], Session]
"""Returns the changed session, or raises; may be called again (docs/decisions/0047)."""
"""Returns what a session becomes; the session itself changes nothing.

It takes no time, and it may be called again: with a newer session, if another process was faster
with its own change. So it does nothing but return a value, or raise what refuses the change."""

Opening = Callable[[Session], tuple[Session, Result]]
"""A ``Change`` that goes with a claim, and returns a value for who claims beside the session. That
of the call that counts is handed on, so nothing needs to get out of a change by side effect."""

Check = Callable[[Session], object]
"""Looks at a session in the moment of its deletion; what it raises refuses that."""

Recover = Callable[[Session, Claim], Session]
"""Returns what a session becomes whose turn died with its owner, before anything else happens to
it. It is saved before the dead claim is gone: after another crash it runs again, and must then
change nothing. It may be called again, too."""


class SessionReader(Protocol):
    """Reads sessions.

    Calls of the whole port block for milliseconds: make them in a thread. Those that take the id of
    a session raise ``SessionNotFound`` if it is unknown or malformed, and ``SessionCorrupt`` if
    the session can't be read.
    """

    def load(self, session_id: str) -> Session:
        """Return the session."""

    def look(self, session_id: str) -> tuple[SessionMetadata, Claim | None]:
        """Return what lists say of the session, and the claim on it, for less than reading all."""

    def recall(self, session_id: str) -> Session | None:
        """Return the session as this process read or wrote it last, at once; None if it did not.

        It may be out of date. Takes no time and raises nothing: no thread is needed.
        """

    def list(self, *, anew: bool = False, quickly: bool = False) -> Listing:
        """Return all sessions, reading only what changed since the last call.

        Args:
            anew: Whether to look first for what others put in or took out beside the server, also
                where that takes long.
            quickly: Whether what they changed may be missing, where to look for it takes long.
        """

    def deleted_at(self, session_id: str) -> str | None:
        """Return when the session was deleted (UTC, ISO 8601).

        None where it was not, or long ago: a session that is missing may be out of reach just now.
        """

    def can_hold(self, session: Session) -> bool:
        """Return whether a recovery could save the session as it is now, and read it again.

        It has some room for that beyond what other changes may take.
        """


class SessionClaims(Protocol):
    """Claims sessions for turns, one at a time: ``SessionBusy`` while another owner lives."""

    owners: Owners
    keeps_begun: bool
    """True when claims keep the calls that have begun; otherwise only the turn's journal does."""

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
        """Claim the session for a turn of ``owner``, change it, and return both.

        A dead turn is recovered first. What ``change`` raises leaves the session neither changed
        nor claimed. With ``new`` the session is made by this: ``SessionExists`` when its id is
        taken.
        """

    def release(self, session_id: str, turn_id: str) -> None:
        """Give up that turn's claim; does nothing when it is not the current one."""

    def sync_claims(self) -> None:
        """Let the claims that were made so far survive a power cut."""

    def claim_of(self, session_id: str) -> Claim | None:
        """Return the claim on the session, dead or alive, or None."""

    def load_claimed(self, session_id: str, *, part: bool = False) -> tuple[Session, Claim | None]:
        """Return the session, with ``part`` as turns get it (``PartlyRead``), and its claim."""

    def claims(self) -> Sequence[Claim]:
        """Return every claim, dead or alive."""


class SessionRepository(SessionReader, SessionClaims, Protocol):
    """Keeps sessions.

    Writes raise ``StorageFull``, and ``SessionReadOnly`` if the session's format has another major
    version, except that ``delete`` removes any session.
    """

    def create(self, session: Session) -> None:
        """Keep a new session; ``SessionExists`` when its id is taken."""

    def update(
        self,
        session_id: str,
        change: Change,
        *,
        turn_id: str | None = None,
        release: bool = False,
        begun: Sequence[str] = (),
    ) -> Session:
        """Change the session, and return it.

        With ``turn_id`` the caller must hold that turn's claim (``SessionBusy`` otherwise), which
        ``release`` gives up. ``begun`` names the tool calls that are about to run: the claim keeps
        them with those that it has, so that they never run again, if the repository
        ``keeps_begun``.
        """

    def update_idle(
        self, session_id: str, change: Change, *, recover: Recover | None = None
    ) -> Session:
        """Change the session while no turn runs; a dead turn is recovered first."""

    def delete(self, session_id: str, *, check: Check | None = None) -> None:
        """Forget the session, readable or not, while no turn runs.

        With ``check`` it must be readable, and what that raises keeps it as it is.
        """

    def sweep(self) -> int:
        """Remove what dead processes left behind, but no claims on sessions; return how many."""
