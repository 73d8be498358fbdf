"""Deals with what earlier turns left, once a new turn has claimed their session."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from msgspec.structs import asdict

from chat.approvals.store import ConfirmationStore
from chat.context.history import Continuation
from chat.remote.recovery import TurnRecovery
from chat.turn.job import TurnJob
from sessions_app.attachments.references import attachments_in
from sessions_app.errors import AttachmentNotFound
from sessions_app.session import Session

MOST_ENDED = 1_000
"""The maximum sessions whose last turn of this process is remembered as ended."""


class EarlierTurns:
    """Ends journals of dead turns, withdraws questions, and keeps removed files. Calls block.

    Args:
        recovery: Ends journals.
        confirmation_store: The questions of earlier turns.
        renew_attachments: Sets the last use of attachments to now.
    """

    def __init__(
        self,
        recovery: TurnRecovery,
        confirmation_store: ConfirmationStore,
        renew_attachments: Callable[[Collection[str]], None] | None = None,
    ) -> None:
        self._recovery = recovery
        self._confirmation_store = confirmation_store
        self._renew_attachments = renew_attachments
        self._ended: dict[str, str] = {}

    def note_ended(self, session_id: str, turn_id: str) -> None:
        """Remember a turn whose journal has its end, so that the next turn need not check that."""
        if len(self._ended) >= MOST_ENDED:
            self._ended.clear()  # they are looked at again
        self._ended[session_id] = turn_id

    def settle(self, before: Session, session: Session, job: TurnJob, turns: Sequence[str]) -> None:
        """Deal with everything that the turns before this one left.

        Args:
            before: The session before the claim.
            session: The session as it was claimed.
            job: The job of the turn that claimed it.
            turns: The earlier turns with a journal, oldest first.
        """
        session_id = session.session_id
        if job.rewinds:
            self._keep_files_of_removed(before, session)
        if turns and turns[-1] != self._ended.get(session_id):
            self._recovery.end_earlier(session, turns)
        # Denials first: a call must not keep an approval if the turn can't begin after all.
        for decision in sorted(job.decisions, key=lambda each: each.approved):
            self._confirmation_store.decide(session_id, **asdict(decision), repeatable=True)
        self._withdraw_questions(session_id, job.continuation)

    def _keep_files_of_removed(self, before: Session, after: Session) -> None:
        """Let files that only removed messages refer to count as used now.

        The messages are back if the turn ends without an answer (docs/decisions/0110).
        """
        if self._renew_attachments is None:
            return
        kept = {each.id for each in attachments_in(after.messages)}
        for attachment_id in {each.id for each in attachments_in(before.messages)} - kept:
            with suppress(AttachmentNotFound):
                self._renew_attachments([attachment_id])

    def _withdraw_questions(self, session_id: str, continuation: Continuation) -> None:
        """Withdraw the questions of earlier turns, except for calls that this turn resumes.

        Questions of agents refer to messages of other sessions, and belong to resumed calls: turns
        that resume nothing withdraw all questions, including approved ones, as an agent may make
        the same call again for another call.
        """
        if not continuation.open_calls:
            self._confirmation_store.withdraw_all(session_id)
            return
        self._confirmation_store.withdraw(
            asked
            for asked in self._confirmation_store.pending(session_id)
            if asked.agent_name is None and asked.message_id != continuation.asking_id
        )
