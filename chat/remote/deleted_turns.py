"""Forgets ended turns when their messages are deleted: journals have the texts, too."""

import logging
import time
from collections.abc import Sequence

from chat.errors import MessageDeleted
from chat.remote.recovery import TurnRecovery
from chat.storage.journal import TurnJournal
from chat.storage.records import REMOVED
from sessions_app.errors import StorageError
from sessions_app.messages import Message
from sessions_app.store.records import Records, read_or_empty, record_name
from sessions_app.variants import newest_first

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 1.0
CLOSING_POLL_SECONDS = 0.01
"""A journal has its end a moment before its writer closes it."""


class DeletedTurns:
    """Discards the journals of turns of which messages were deleted. All calls block.

    A mark stays, by which a repeated request with an ``Idempotency-Key`` is refused: without its
    journal a turn counts as one that never began, and would be run again.

    Args:
        journal: The journals.
        recovery: Ends those of dead turns.
        records: Where the marks are, beside the session.
    """

    def __init__(self, journal: TurnJournal, recovery: TurnRecovery, records: Records) -> None:
        self._journal = journal
        self._recovery = recovery
        self._records = records

    def forget(self, session_id: str, messages: Sequence[Message]) -> None:
        """Forget the turns of deleted messages and of their variants; running ones are left alone.

        What can't be forgotten now is logged: the messages are deleted, and journals are swept.
        """
        turns = {message.turn_id for message in newest_first(messages)}
        try:
            for turn_id in self._journal.turns(session_id):
                if turn_id in turns:
                    self._forget(session_id, turn_id)
        except (OSError, StorageError):
            logger.exception(
                "the journal of deleted messages stays until it is swept",
                extra={"session_id": session_id},
            )

    def _forget(self, session_id: str, turn_id: str) -> None:
        if not self._journal.has_ended(session_id, turn_id):
            self._recovery.seal(session_id)
        if not self._journal.has_ended(session_id, turn_id):
            return  # it runs
        self._records.put(record_name(session_id, turn_id, REMOVED), b"{}")
        deadline = time.monotonic() + CLOSING_SECONDS
        self._journal.discard(session_id, turn_id)
        while turn_id in self._journal.turns(session_id) and time.monotonic() < deadline:
            time.sleep(CLOSING_POLL_SECONDS)
            self._journal.discard(session_id, turn_id)


def require_not_deleted(records: Records, session_id: str, turn_id: str) -> None:
    """Check that a turn without a journal is none of which messages were deleted. Blocks.

    Raises:
        MessageDeleted: It is.
    """
    if read_or_empty(records, record_name(session_id, turn_id, REMOVED)) is not None:
        raise MessageDeleted(session_id, turn_id=turn_id)
