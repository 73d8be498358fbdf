"""Claims sessions as turns do, for tests that need no more of a turn."""

from unittest.mock import patch

from sessions_app.session import Session
from sessions_app.store.claims import TurnClaims
from sessions_app.store.repository import Change, Hold, Recover, SessionRepository


def claim_session(
    repository: SessionRepository,
    session_id: str,
    turn_id: str,
    *,
    owner: str | None = None,
    recover: Recover | None = None,
    change: Change = lambda session: session,
    new: Session | None = None,
) -> Session:
    """Claim a session for a turn of a process, by default of this one; return the session."""
    session, _ = repository.claim(
        session_id,
        turn_id,
        owner=owner or repository.owners.mine(),
        change=lambda session: (change(session), None),
        recover=recover,
        new=new,
    )
    return session


def delete_and_die(repository: SessionRepository, session_id: str) -> None:
    """Delete a session in a process that dies before it removes the claim of a dead turn."""
    with patch.object(TurnClaims, "remove"):
        repository.delete(session_id)


def hold_of(repository: SessionRepository, turn_id: str) -> Hold:
    """Return the hold of a turn that the repository's own process runs."""
    return Hold(turn_id, repository.owners.mine())
