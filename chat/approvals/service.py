"""Lists pending approvals and records the answers to them, from any process."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from chat.approvals.confirmation import ApprovalDecision, Confirmation, Decision
from chat.approvals.store import ConfirmationStore
from chat.approvals.waiting import still_asked
from chat.errors import ConfirmationNotFound
from chat.storage.signals import Signals
from chat.work_threads import WorkThreads
from sessions_app.errors import MochiError
from sessions_app.store.repository import SessionRepository

CHECKS_AT_ONCE = 2
"""Edited arguments that are checked at once; some take seconds, in threads of their own."""


class ConfirmationService:
    """Lists pending approvals, and records decisions.

    Args:
        confirmation_store: The store of questions and answers.
        repository: The sessions.
        signals: Notify turns of other processes.
        notice: Notifies a turn of this process, by its id; False if it does not run here.
    """

    def __init__(
        self,
        *,
        confirmation_store: ConfirmationStore,
        repository: SessionRepository,
        signals: Signals,
        notice: Callable[[str], bool],
    ) -> None:
        self._confirmation_store = confirmation_store
        self._repository = repository
        self._signals = signals
        self._notice = notice
        self._checks = WorkThreads(CHECKS_AT_ONCE)

    async def pending(self, session_id: str) -> Sequence[Confirmation]:
        """Return the session's questions that wait for an answer, oldest first.

        Raises:
            SessionNotFound: There is no such session.
        """
        return await asyncio.to_thread(self._pending, session_id)

    async def answered(self, session_id: str) -> Sequence[Confirmation]:
        """Return the session's answered questions that are still stored."""
        return await asyncio.to_thread(self._confirmation_store.answered, session_id)

    async def decide(
        self,
        session_id: str,
        confirmation_id: str,
        *,
        approved: bool,
        arguments: Mapping[str, Any] | None = None,
    ) -> tuple[Confirmation, ApprovalDecision]:
        """Answer a question and wake the turn that waits for it.

        The first answer is valid, except that a denial replaces an approval that was not used.

        Args:
            session_id: The session that asked.
            confirmation_id: The question.
            approved: Whether the tool may run.
            arguments: The tool's arguments, if not those of the model.

        Raises:
            SessionNotFound: There is no such session.
            ConfirmationNotFound: The session has no such question (any more).
            ConfirmationAlreadyDecided: It was answered before.
            ConfirmationExpired: It has expired, which counts as a no.
        """
        decide = partial(self._decide, session_id, confirmation_id, approved, arguments)
        in_thread = asyncio.to_thread if arguments is None else self._checks.run
        confirmation, decision = await in_thread(decide)
        await self._wake(confirmation)
        return confirmation, decision

    async def check(self, session_id: str, decisions: Sequence[Decision]) -> None:
        """Check edited arguments before a turn does, which holds its session's lock meanwhile."""
        for decision in decisions:
            if isinstance(decision.arguments, Mapping):
                accept = partial(self._confirmation_store.accept, session_id, decision, dry=True)
                with suppress(MochiError):  # the turn is refused with it, if it begins
                    await self._checks.run(accept)

    async def accept(self, session_id: str, decision: Decision) -> None:
        """Record a decision while its turn waits, which is woken; to repeat it succeeds.

        Decisions for a turn that begins come with its request (``TurnRequest.decisions``).

        Raises as ``decide``.
        """
        confirmation = await asyncio.to_thread(
            self._confirmation_store.accept, session_id, decision
        )
        await self._wake(confirmation)

    async def _wake(self, confirmation: Confirmation) -> None:
        if not self._notice(confirmation.turn_id):
            await asyncio.to_thread(self._signal, confirmation)

    def _pending(self, session_id: str) -> Sequence[Confirmation]:
        session = self._repository.load(session_id)
        return [
            asked
            for asked in self._confirmation_store.pending(session_id)
            if still_asked(session, asked)
        ]

    def _decide(
        self,
        session_id: str,
        confirmation_id: str,
        approved: bool,
        arguments: Mapping[str, Any] | None,
    ) -> tuple[Confirmation, ApprovalDecision]:
        session = self._repository.load(session_id)
        gone = [
            asked.confirmation_id
            for asked in self._confirmation_store.pending(session_id)
            if not still_asked(session, asked)
        ]
        if confirmation_id in gone:
            self._confirmation_store.withdraw(session_id, gone)
            raise ConfirmationNotFound(confirmation_id)
        return self._confirmation_store.decide(
            session_id, confirmation_id, approved=approved, arguments=arguments
        )

    def _signal(self, confirmation: Confirmation) -> None:
        """Wake the turn if it runs in another process; a suspended turn finds the answer later."""
        claim = self._repository.claim_of(confirmation.session_id)
        if claim is not None and claim.alive and claim.turn_id == confirmation.turn_id:
            self._signals.send(confirmation.turn_id, "confirm")
