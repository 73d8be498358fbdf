"""Removes ephemeral sessions, when their turn ends or later (docs/decisions/0058)."""

import logging
from collections.abc import Callable
from contextlib import suppress

from chat.approvals.store import ConfirmationStore
from chat.storage.journal import TurnJournal
from sessions_app.errors import SessionBusy, SessionCorrupt, SessionNotFound
from sessions_app.session import Session
from sessions_app.store.repository import SessionRepository

logger = logging.getLogger(__name__)


class EphemeralSessions:
    """Removes the sessions of one storage with all their data. All calls block.

    Args:
        repository: The sessions.
        journal: The journals of their turns.
        confirmation_store: The approval requests of their turns only.
        forget_more: Removes further data of a session.
    """

    def __init__(
        self,
        *,
        repository: SessionRepository,
        journal: TurnJournal,
        confirmation_store: ConfirmationStore,
        forget_more: Callable[[Session], None],
    ) -> None:
        self._repository = repository
        self._journal = journal
        self._confirmation_store = confirmation_store
        self._forget_more = forget_more

    def forget(self, session_id: str) -> None:
        """Remove a session, unless its next turn runs: then it is removed after that turn.

        One that can't be removed is swept later.
        """
        try:
            self._forget(session_id)
        except Exception:
            logger.exception(
                "a session that is not kept could not be removed", extra={"session_id": session_id}
            )

    def _forget(self, session_id: str) -> None:
        session = None
        with suppress(SessionNotFound, SessionCorrupt):  # the rest can be removed without it
            session = self._repository.load(session_id)
        try:
            self._repository.delete(session_id)
        except SessionBusy:
            return
        except SessionNotFound:
            pass
        self._journal.discard_session(session_id)
        self._confirmation_store.discard_session(session_id)
        if session is not None:
            self._forget_more(session)

    def forget_ended(self) -> int:
        """Remove sessions whose journals were swept, and the remains of deleted ones.

        A session that waits for an approval stays until the request has expired.

        Returns:
            The number of these sessions.
        """
        listing = self._repository.list()
        over = [each.session_id for each in listing.sessions if self._is_over(each.session_id)]
        over += [file.file.removesuffix(".json") for file in listing.unreadable]
        over += self._without_session()
        for session_id in over:
            self.forget(session_id)
        return len(over)

    def _is_over(self, session_id: str) -> bool:
        """Return whether the session has no journal, no claim and no pending approval."""
        if self._journal.turns(session_id) or self._repository.claim_of(session_id) is not None:
            return False
        return not self._confirmation_store.pending(session_id)

    def _without_session(self) -> list[str]:
        """Return sessions that do not exist any more but have an unended journal."""
        return [each for each in self._journal.unended_sessions() if self._is_gone(each)]

    def _is_gone(self, session_id: str) -> bool:
        if any(
            self._journal.is_being_written(session_id, turn_id)
            for turn_id in self._journal.turns(session_id)
        ):
            return False  # a turn begins with its journal
        try:
            self._repository.load(session_id)
        except SessionNotFound:
            return True
        except SessionCorrupt:
            pass
        return False
