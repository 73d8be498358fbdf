"""Wraps a repository and reports every change once it is made."""

from collections.abc import Callable, Sequence
from typing import Protocol

from sessions_app.session import Session, SessionMetadata
from sessions_app.store.repository import (
    Change,
    Check,
    Claim,
    Listing,
    Opening,
    Recover,
    Result,
    SessionRepository,
)


class SessionObserver(Protocol):
    """Handles changes, in the thread that made them. Methods are quick and must not raise."""

    def created(self, session_id: str, /) -> None:
        """Handle a new session."""

    def changed(self, session_id: str, /) -> None:
        """Handle a session that has changed, or may have."""

    def deleted(self, session_id: str, /) -> None:
        """Handle a deleted session."""

    def turn_started(self, session_id: str, turn_id: str, /) -> None:
        """Handle a turn that has claimed its session."""

    def turn_ended(self, session_id: str, turn_id: str, /) -> None:
        """Handle a turn that has released its claim, or was recovered."""


class ObservedRepository:
    """Wraps a repository and reports its changes; implements the whole port.

    Args:
        repository: The wrapped repository.
        observer: Handles the changes.
    """

    def __init__(self, repository: SessionRepository, observer: SessionObserver) -> None:
        self._repository = repository
        self._observer = observer
        self.owners = repository.owners
        self.keeps_begun = repository.keeps_begun
        # Bound directly, so that reads cost no extra call.
        self.load: Callable[[str], Session] = repository.load
        self.look: Callable[[str], tuple[SessionMetadata, Claim | None]] = repository.look
        self.recall: Callable[[str], Session | None] = repository.recall
        self.deleted_at: Callable[[str], str | None] = repository.deleted_at
        self.can_hold: Callable[[Session], bool] = repository.can_hold
        self.sync_claims: Callable[[], None] = repository.sync_claims
        self.claim_of: Callable[[str], Claim | None] = repository.claim_of
        self.claims: Callable[[], Sequence[Claim]] = repository.claims
        self.load_claimed: Callable[[str], tuple[Session, Claim | None]] = repository.load_claimed
        self.sweep: Callable[[], int] = repository.sweep

    def list(self, *, anew: bool = False, quickly: bool = False) -> Listing:
        """Return all sessions."""
        return self._repository.list(anew=anew, quickly=quickly)

    def create(self, session: Session) -> None:
        """Store a new session."""
        self._repository.create(session)
        self._observer.created(session.session_id)

    def update(
        self,
        session_id: str,
        change: Change,
        *,
        turn_id: str | None = None,
        release: bool = False,
        begun: Sequence[str] = (),
    ) -> Session:
        """Change the session, and return it."""
        session = self._repository.update(
            session_id, change, turn_id=turn_id, release=release, begun=begun
        )
        if release:
            self._observer.turn_ended(session_id, turn_id or "")
        else:
            self._observer.changed(session_id)
        return session

    def update_idle(
        self, session_id: str, change: Change, *, recover: Recover | None = None
    ) -> Session:
        """Change the session while no turn runs, after recovering a dead turn."""
        recovery = _Recovery(recover)
        try:
            session = self._repository.update_idle(
                session_id, change, recover=None if recover is None else recovery
            )
        finally:  # also if the change was refused: a recovery may have been saved before it
            if recovery.turn_id is not None:
                self._observer.turn_ended(session_id, recovery.turn_id)
        if recovery.turn_id is None:
            self._observer.changed(session_id)
        return session

    def delete(self, session_id: str, *, check: Check | None = None) -> None:
        """Delete the session while no turn runs."""
        self._repository.delete(session_id, check=check)
        self._observer.deleted(session_id)

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
        """Claim the session for a turn, change it, and return both."""
        claimed = self._repository.claim(
            session_id, turn_id, owner=owner, change=change, recover=recover, new=new
        )
        if new is not None:
            self._observer.created(session_id)
        self._observer.turn_started(session_id, turn_id)
        return claimed

    def release(self, session_id: str, turn_id: str) -> None:
        """Release that turn's claim."""
        self._repository.release(session_id, turn_id)
        self._observer.turn_ended(session_id, turn_id)


class _Recovery:
    """Recovers a session and records the id of the dead turn."""

    def __init__(self, recover: Recover | None) -> None:
        self._recover = recover
        self.turn_id: str | None = None

    def __call__(self, session: Session, claim: Claim) -> Session:
        self.turn_id = claim.turn_id
        return session if self._recover is None else self._recover(session, claim)
