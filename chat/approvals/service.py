"""Lists pending approvals and records the answers to them, from any process."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal

from chat.approvals.confirmation import ApprovalDecision, Confirmation, Decision
from chat.approvals.store import ConfirmationStore
from chat.approvals.waiting import still_asked
from chat.errors import ConfirmationNotFound
from chat.storage.signals import Signals
from chat.work_threads import WorkThreads
from mochi_project.keys.key import require_scope
from sessions_app.errors import MochiError, ValidationFailed
from sessions_app.policy_scope import MOST_SCOPES
from sessions_app.session import ToolSettings
from sessions_app.store.repository import SessionRepository
from tools_app.policy import RememberedPolicy, policies_of, policy_name

Remember = Literal["once", "session"] | Mapping[str, str]
CHECKS_AT_ONCE = 2
"""Edited arguments that are checked at once; some take seconds, in threads of their own."""


class ConfirmationService:
    """Lists pending approvals, and records decisions.

    Args:
        confirmation_store: The store of questions and answers.
        repository: The sessions.
        signals: Notify turns of other processes.
        notice: Notifies a turn of this process, by its id; False if it does not run here.
        go_on: Called with the session of an answer that may start its next turn.
    """

    def __init__(
        self,
        *,
        confirmation_store: ConfirmationStore,
        repository: SessionRepository,
        signals: Signals,
        notice: Callable[[str], bool],
        go_on: Callable[[str], object],
    ) -> None:
        self._confirmation_store = confirmation_store
        self._repository = repository
        self._signals = signals
        self._notice = notice
        self._go_on = go_on
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

    async def is_answered_by_person(self, question: Confirmation) -> bool:
        """Return whether a person answered it: it neither expired nor was it withdrawn."""
        return await asyncio.to_thread(self._confirmation_store.is_answered_by_person, question)

    async def decide(
        self,
        session_id: str,
        decision: Decision,
        *,
        repeatable: bool = False,
        is_final: bool = False,
        remember: Remember = "once",
    ) -> tuple[Confirmation, ApprovalDecision]:
        """Answer a question and wake the turn that waits for it.

        The first answer is valid, except that a denial replaces an approval that was not used.
        Answers for a turn that begins come with its request (``TurnRequest.decisions``).

        Args:
            session_id: The session that asked.
            decision: The answer.
            repeatable: Whether to repeat the recorded answer succeeds, and a late denial.
            is_final: Whether a denial, too, must be the first answer.
            remember: The calls that it allows: this one, or further ones of the tool in the
                session, too: all, or those that fit globs by the names of arguments.

        Raises:
            SessionNotFound, ScopeMissing: By the session; by who acts, who may not answer.
            ConfirmationNotFound: The session has no such question (any more).
            ConfirmationAlreadyDecided, ConfirmationExpired: This answer comes too late.
            ValidationFailed: It can't be remembered, or the arguments do not fit the tool, or the
                content the form; the question stays open.
        """
        if remember != "once" and decision.approved is not True:
            raise ValidationFailed("Only an approval can be remembered.", field="remember")
        how = {"repeatable": repeatable, "is_final": is_final}
        decide = partial(self._decide, session_id, decision, remember, **how)
        is_edited = isinstance(decision.arguments, Mapping)
        decided = await (self._checks.run(decide) if is_edited else asyncio.to_thread(decide))
        await self._wake(decided[0])
        return decided

    async def check(self, session_id: str, decisions: Sequence[Decision]) -> None:
        """Check edited arguments before a turn does, which holds its session's lock meanwhile."""
        store = self._confirmation_store
        for decision in decisions:
            if isinstance(decision.arguments, Mapping):
                check = partial(store.decide, session_id, decision, repeatable=True, dry=True)
                with suppress(MochiError):  # the turn is refused with it, if it begins
                    await self._checks.run(check)

    async def _wake(self, confirmation: Confirmation) -> None:
        if not self._notice(confirmation.turn_id):
            await asyncio.to_thread(self._signal, confirmation)
            if confirmation.request is not None:
                self._go_on(confirmation.session_id)

    def _pending(self, session_id: str) -> Sequence[Confirmation]:
        session = self._repository.load(session_id)
        pending = self._confirmation_store.pending(session_id)
        return [asked for asked in pending if still_asked(session, asked)]

    def _decide(
        self, session_id: str, decision: Decision, remember: Remember, **how: bool
    ) -> tuple[Confirmation, ApprovalDecision]:
        require_scope("approve")
        confirmation_id, remembered = decision.confirmation_id, None
        session = self._repository.load(session_id)
        pending = self._confirmation_store.pending(session_id)
        gone = [asked for asked in pending if not still_asked(session, asked)]
        if any(asked.confirmation_id == confirmation_id for asked in gone):
            self._confirmation_store.withdraw(gone)
            raise ConfirmationNotFound(confirmation_id)
        asked = next((it for it in pending if it.confirmation_id == confirmation_id), None)
        if remember != "once" and asked is not None:
            settings = session.metadata.tool_settings or ToolSettings()
            remembered = _remembered(remember, asked, settings)
        return self._confirmation_store.decide(session_id, decision, remembered=remembered, **how)

    def _signal(self, confirmation: Confirmation) -> None:
        """Wake the turn if it runs in another process; a suspended turn finds the answer later."""
        claim = self._repository.claim_of(confirmation.session_id)
        if claim is not None and claim.alive and claim.turn_id == confirmation.turn_id:
            self._signals.send(confirmation.turn_id, "confirm")


def _remembered(
    remember: Remember, asked: Confirmation, settings: ToolSettings
) -> RememberedPolicy:
    """Return the policy that the approval of a call sets.

    Raises:
        ValidationFailed: The tool has changed, or has as many policies as it may.
    """
    if asked.kind != "call":
        raise ValidationFailed("Answers to servers are not remembered.", field="remember")
    if asked.reason is not None:
        raise ValidationFailed(
            "The tool has changed since it was enabled: approve this call once.", field="remember"
        )
    name = policy_name(asked.tool_name, asked.agent_name)
    current = policies_of(settings, name)
    if remember != "session" and len(current.scopes) >= MOST_SCOPES:
        raise ValidationFailed(
            f"The tool {name!r} has {MOST_SCOPES} policies for certain arguments already. Change "
            "them in the session's tool_settings.",
            field="remember",
        )
    return RememberedPolicy(
        tool=name,
        arguments=None if isinstance(remember, str) else remember,
        replaces=current,
    )
