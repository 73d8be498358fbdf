"""Finds turns that were suspended while people took their time, and that may go on by themselves.

The answer to the last open question starts the next turn, in whichever process it is recorded; if
that one dies, another process finds it (docs/decisions/0200).
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from chat.approvals.confirmation import Confirmation
from chat.approvals.store import ConfirmationStore
from sessions_app.calls import open_calls
from sessions_app.errors import SessionError
from sessions_app.messages import AssistantMessage
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

        It does if all questions about the calls at the end of the session are answered. Calls of a
        client wait for their client.
        """
        calls = {call.id for call in open_calls(session.messages) if not call.client_side}
        if not calls:
            return None
        messages = reversed(session.messages)  # results of the other calls may follow it
        last = next(it.message_id for it in messages if isinstance(it, AssistantMessage))

        def is_of_end(question: Confirmation) -> bool:
            return question.message_id == last and question.tool_call_id in calls

        now = self._store.now()
        for question in self._store.unanswered(session.session_id):
            if question.is_open(now) or is_of_end(question):  # expired: the turn would ask again
                return None
        answered = [
            question
            for question in self._store.answered(session.session_id)
            if question.request is not None
            and (question.agent_name is not None or is_of_end(question))
            and self._store.is_answered_by_person(question)
        ]
        newest = max(answered, key=lambda question: question.created_at, default=None)
        return None if newest is None else newest.request

    def sessions(self, load: Callable[[str], Session]) -> Iterator[str]:
        """Yield the sessions whose next turn goes on by itself, until it has begun.

        Others are looked at once until something changes there. ``load`` reads a session.
        """
        seen: dict[str, Hashable] = {}
        for session_id, stamp in self._store.stamps().items():
            if self._seen.get(session_id) != stamp and self._goes_on(session_id, load):
                yield session_id
            else:
                seen[session_id] = stamp
        self._seen = seen

    def _goes_on(self, session_id: str, load: Callable[[str], Session]) -> bool:
        try:
            return self.request_of(load(session_id)) is not None
        except SessionError:  # who opens it is told
            return False
