"""Where sessions are kept: the port, and the values that cross it."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from sessions_app.session import Session, SessionMetadata


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The record that a session has a running turn.

    Attributes:
        session_id: The session.
        turn_id: Its running turn; empty when a crash of the machine lost the record.
        worker_id: The process that owns the turn; empty likewise.
        started_at: When the turn began (UTC, ISO 8601); empty likewise.
        alive: Whether the owner still lives and runs the turn; else the claim binds nobody.
        is_known: Whether its record is of a version that is known here. Of others, it is told only
            whether a worker lives that they name, and the turn as far as it can be guessed.
    """

    session_id: str
    turn_id: str
    worker_id: str
    started_at: str
    alive: bool = True
    is_known: bool = True


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """A file that looks like a session's but can't be read as one."""

    file: str
    reason: str


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The readable sessions, most recently updated first, and the files that are not."""

    sessions: Sequence[SessionMetadata]
    unreadable: Sequence[Unreadable]


Change = Callable[[Session], Session]
"""What to do with a session; runs under its lock, so it takes no time. Returning the session
itself changes nothing."""

Recover = Callable[[Session, Claim], Session]
"""What to do first with a session whose turn died with its owner. Runs under the lock, and is saved
before the dead claim is gone: after another crash it runs again, and must then change nothing."""


class SessionRepository(Protocol):
    """Keeps sessions. Every call blocks for milliseconds: call it from a worker thread.

    Every method that takes a session id raises ``SessionNotFound`` for an unknown or malformed id
    and ``SessionCorrupt`` for a file that can't be read; writes raise ``StorageFull``, and
    ``SessionReadOnly`` for a session of an unknown major format, which only ``delete`` removes.
    Where a turn may be running, ``SessionBusy`` is raised while its owner lives.
    """

    def create(self, session: Session) -> None:
        """Keep a new session; ``SessionExists`` when its id is taken."""

    def load(self, session_id: str) -> Session:
        """Return the session."""

    def recall(self, session_id: str) -> Session | None:
        """Return the session as this process read or wrote it last, at once; None if it did not.

        It may be out of date. Takes no time and raises nothing: no thread is needed.
        """

    def update(
        self,
        session_id: str,
        change: Change,
        *,
        turn_id: str | None = None,
        release: bool = False,
    ) -> Session:
        """Replace the session by ``change(session)``, under its lock, and return the new one.

        With ``turn_id`` the caller must hold that turn's claim (``SessionBusy`` otherwise); with
        ``release`` it is given up with the change.
        """

    def update_idle(
        self, session_id: str, change: Change, *, recover: Recover | None = None
    ) -> Session:
        """Like ``update``, but only while no turn runs; a dead turn is recovered first."""

    def delete(self, session_id: str) -> None:
        """Forget the session, readable or not, while no turn runs."""

    def can_hold(self, session: Session) -> bool:
        """Whether the session as it is now can be saved by a recovery, and read again.

        There is some room for that beyond what other changes may take.
        """

    def deleted_at(self, session_id: str) -> str | None:
        """Return when the session was deleted (UTC, ISO 8601).

        None where it was not, or so long ago that nobody remembers: a session that is not there may
        only be out of reach just now.
        """

    def list(self) -> Listing:
        """Return what there is, reading only what changed since the last call."""

    def claim(
        self,
        session_id: str,
        turn_id: str,
        *,
        recover: Recover | None = None,
        change: Change | None = None,
    ) -> Session:
        """Claim the session for a turn and return it; a dead turn is recovered first.

        ``change`` is made with it; if it raises, the session is neither changed nor claimed.
        """

    def release(self, session_id: str, turn_id: str) -> None:
        """Give up that turn's claim; does nothing when it is not the current one."""

    def sync_claims(self) -> None:
        """Let the claims that were made so far survive a power cut."""
        ...

    def claim_of(self, session_id: str) -> Claim | None:
        """Return the claim on the session, dead or alive, or None."""

    def claims(self) -> Sequence[Claim]:
        """Return every claim, dead or alive."""

    def sweep(self) -> int:
        """Remove what dead processes left behind, but no claims on sessions; return how many."""
