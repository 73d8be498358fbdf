"""Finds the sessions that wait for an approval; rereads only changed ones."""

import threading
from collections.abc import Hashable, Mapping, Sequence

from chat.approvals.confirmation import Confirmation
from chat.approvals.store import ConfirmationStore
from sessions_app.calls import open_calls
from sessions_app.errors import SessionError
from sessions_app.session import Session, SessionMetadata
from sessions_app.store.repository import SessionReader

Questions = Sequence[Confirmation]


class WaitingSessions:
    """Finds the sessions with pending questions; rereads only changed ones. All calls block.

    Safe to use from several threads.

    Args:
        confirmation_store: The questions.
        sessions: Reads sessions, as the asking message may have been removed since.
    """

    def __init__(self, confirmation_store: ConfirmationStore, sessions: SessionReader) -> None:
        self._confirmation_store = confirmation_store
        self._sessions = sessions
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Hashable, Questions]] = {}
        self._checked: dict[str, tuple[str, Questions, bool]] = {}

    def all(self) -> Mapping[str, Questions]:
        """Return the questions that can be answered now, by session."""
        store, before = self._confirmation_store, self._known
        stamps, now = store.stamps(), store.now()
        current: dict[str, tuple[Hashable, Questions]] = {}
        for session_id, stamp in stamps.items():
            known = before.get(session_id)
            if known is None or known[0] != stamp:
                known = stamp, store.pending(session_id)
            current[session_id] = known
        self._known = current
        found = {
            session_id: asked
            for session_id, (_, asked) in current.items()
            if any(each.is_open(now) for each in asked)
        }
        with self._lock:
            for session_id in self._checked.keys() - found.keys():
                del self._checked[session_id]
        return found

    def of(self, session_id: str) -> Questions:
        """Return the questions of one session that can be answered now."""
        return self._confirmation_store.pending(session_id)

    def asks(self, metadata: SessionMetadata, questions: Questions) -> bool:
        """Return whether a session still has the message that asked one of these questions.

        The session is read only if it has changed since, and once for each change.
        """
        if not questions:
            return False
        if metadata.updated_at <= min(each.created_at for each in questions):
            return True
        session_id = metadata.session_id
        checked = self._checked.get(session_id)
        if checked is None or checked[:2] != (metadata.updated_at, questions):
            checked = metadata.updated_at, questions, self._reads_as_asking(session_id, questions)
            with self._lock:
                self._checked[session_id] = checked
        return checked[2]

    def _reads_as_asking(self, session_id: str, questions: Questions) -> bool:
        try:
            session = self._sessions.load(session_id)
        except SessionError:  # gone just now, or it can't be read: nobody can answer
            return False
        return any(still_asked(session, each) for each in questions)


def still_asked(session: Session, confirmation: Confirmation) -> bool:
    """Return whether the asking message is still there; it may have been removed by an edit.

    An agent's message is in the agent's session; its question counts while any call is open. That
    of a server counts while its call is open.
    """
    if confirmation.agent_name is not None:
        return bool(open_calls(session.messages))
    if confirmation.kind != "call":
        return any(call.id == confirmation.tool_call_id for call in open_calls(session.messages))
    return any(message.message_id == confirmation.message_id for message in session.messages)
