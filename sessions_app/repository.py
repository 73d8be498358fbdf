"""Where sessions are kept: the port, and the values that cross it."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from sessions_app.session import Session, SessionMetadata


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The record that a session has a running turn.

    Attributes:
        session_id: The session.
        turn_id: Its running turn.
        worker_id: The process that owns the turn.
        started_at: When the turn began (UTC, ISO 8601).
        alive: Whether the owner still lives; a dead owner's claim binds nobody.
    """

    session_id: str
    turn_id: str
    worker_id: str
    started_at: str
    alive: bool = True


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """A file that looks like a session's but can't be read as one."""

    file: str
    reason: str


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The readable sessions, most recently updated first, and the files that are not."""

    sessions: Sequence[SessionMetadata]
    unreadable: Sequence[Unreadable]


class SessionRepository(Protocol):
    """Keeps sessions. Every call blocks for milliseconds: call it from a worker thread.

    Every method that takes a session id raises ``SessionNotFound`` for an unknown or malformed id
    and ``SessionCorrupt`` for a file that can't be read; writes raise ``StorageFull``.
    """

    def create(self, session: Session) -> None:
        """Keep a new session."""

    def load(self, session_id: str) -> Session:
        """Return the session."""

    def update(
        self, session_id: str, change: Callable[[Session], Session], *, turn_id: str | None = None
    ) -> Session:
        """Replace the session by ``change(session)``, under its lock, and return the new one.

        With ``turn_id`` the caller must hold that turn's claim (``SessionBusy`` otherwise).
        """

    def update_idle(self, session_id: str, change: Callable[[Session], Session]) -> Session:
        """Like ``update``, but raise ``SessionBusy`` while a turn runs."""

    def delete(self, session_id: str) -> None:
        """Forget the session; ``SessionBusy`` while a turn runs."""

    def list(self) -> Listing:
        """Return what there is, reading only what changed since the last call."""

    def claim(self, session_id: str, turn_id: str) -> Session:
        """Claim the session for a turn and return it; ``SessionBusy`` if a live worker has it."""

    def release(self, session_id: str, turn_id: str) -> None:
        """Give up that turn's claim; does nothing when it is not the current one."""

    def claim_of(self, session_id: str) -> Claim | None:
        """Return the claim on the session, dead or alive, or None."""
