"""Records changes of sessions, and of their pending approvals, in the log of changes."""

from chat.approvals.confirmation import Confirmation
from chat.approvals.store import Notice
from chat.storage.change_log import ChangeLog
from sessions_app.store.observer import SessionObserver


class ChangeNotes(SessionObserver):
    """Notes changes.

    Args:
        changes: The log.
        notice: Called for questions, too, if not None.
    """

    def __init__(self, changes: ChangeLog, notice: Notice | None = None) -> None:
        self._changes = changes
        self._notice = notice

    def created(self, session_id: str, /) -> None:
        """Note a session that is new."""
        self._changes.note("created", session_id)

    def changed(self, session_id: str, /) -> None:
        """Note that a session is another one now, or might be."""
        self._changes.note("changed", session_id)

    def deleted(self, session_id: str, /) -> None:
        """Note that a session is gone."""
        self._changes.note("deleted", session_id)

    def turn_started(self, session_id: str, turn_id: str, /) -> None:
        """Note that a turn has claimed its session."""
        self._changes.note("turn_started", session_id, turn_id)

    def turn_ended(self, session_id: str, turn_id: str, /) -> None:
        """Note that a turn has given its claim up, or was ended by others."""
        self._changes.note("turn_ended", session_id, turn_id)

    def asked(self, question: Confirmation, is_answered: bool, /) -> None:
        """Note that a turn asks a person, or that a question is answered."""
        if is_answered:
            self._changes.note("changed", question.session_id)
        else:
            self._changes.note("turn_waiting", question.session_id, question.turn_id)
        if self._notice is not None:
            self._notice(question, is_answered)
