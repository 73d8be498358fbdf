"""Finds turns that were suspended while people took their time, and that may go on by themselves.

The answer to the last open question starts the next turn, in whichever process it is recorded; if
that one dies, another process finds it (docs/decisions/0200).
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from chat.approvals.confirmation import Confirmation
from chat.approvals.store import ConfirmationStore
from sessions_app.calls import open_calls
from sessions_app.session import Session


class AnsweredQuestions:
    """Finds answered questions that have outlasted their turns. All calls block.

    Args:
        confirmation_store: The questions and answers.
    """

    def __init__(self, confirmation_store: ConfirmationStore) -> None:
        self._store = confirmation_store
        self._seen: dict[str, Hashable] = {}

    def request_of(self, session: Session) -> Mapping[str, Any] | None:
        """Return the request with which a session's next turn goes on; None if none does by itself.

        It does if all questions about the calls at the end of the session are answered.
        """
        calls = {call.id for call in open_calls(session.messages)}
        if not calls or self._store.pending(session.session_id):
            return None
        last = session.last_message_id
        answered = [
            question
            for question in self._answered(session.session_id)
            if question.agent_name is not None
            or (question.message_id == last and question.tool_call_id in calls)
        ]
        newest = max(answered, key=lambda question: question.created_at, default=None)
        return None if newest is None else newest.request

    def sessions(self) -> Iterator[str]:
        """Yield the sessions with such questions, each once until something changes there."""
        stamps = self._store.stamps()
        for session_id, stamp in stamps.items():
            if self._seen.get(session_id) != stamp and any(self._answered(session_id)):
                yield session_id
        self._seen = dict(stamps)

    def _answered(self, session_id: str) -> Iterator[Confirmation]:
        for question in self._store.answered(session_id):
            if question.request is None:
                continue
            decision = self._store.decision_of(question)
            if decision is not None and decision.reason in {"approved", "denied"}:
                yield question
