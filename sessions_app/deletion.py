"""Defines how sessions are deleted with all that hangs on them: a port."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from sessions_app.errors import MochiError

DeletionOutcome = Literal["deleted", "not_found", "busy", "failed"]


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one session that was to be deleted.

    Attributes:
        session_id: The session.
        outcome: ``deleted``; ``not_found``: it was not there; ``busy``: a turn runs on it;
            ``failed``: see ``error``.
        error: Why it is still there.
    """

    session_id: str
    outcome: DeletionOutcome
    error: MochiError | None = None


class SessionDeletion(Protocol):
    """Deletes sessions, with their running turns and the sessions that their calls made."""

    async def delete(self, session_id: str, *, force: bool = False, agents: bool = False) -> None:
        """Delete a session permanently, even if it can't be read.

        Args:
            session_id: The session.
            force: Whether a turn that runs on it is cancelled first.
            agents: Whether the sessions of agents that it called go with it.

        Raises:
            SessionNotFound: There is no such session.
            SessionBusy: A turn is running; with ``force``, one that does not end in time.
        """

    async def delete_many(
        self, session_ids: Sequence[str], *, force: bool = False, agents: bool = False
    ) -> Sequence[Deletion]:
        """Delete sessions permanently, and return the outcome of each, in order.

        A failure does not affect other sessions. Duplicate ids are deleted once.
        """
