"""Deals with what earlier turns left, once a new turn has claimed their session. Blocks."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from chat.approvals.store import ConfirmationStore
from chat.context.history import Continuation
from chat.remote.recovery import TurnRecovery
from chat.turn.job import TurnJob
from sessions_app.attachments.references import attachments_in
from sessions_app.errors import AttachmentNotFound
from sessions_app.session import Session

Renew = Callable[[Collection[str]], None]
"""Sets the last use of attachments to now. Blocks."""


def settle_earlier(
    before: Session,
    session: Session,
    job: TurnJob,
    turns: Sequence[str],
    *,
    recovery: TurnRecovery,
    confirmation_store: ConfirmationStore,
    renew_attachments: Renew | None,
) -> None:
    """End journals of dead turns, withdraw questions, and keep removed files.

    Args:
        before: The session before the claim.
        session: The session as it was claimed.
        job: The job of the turn that claimed it.
        turns: The earlier turns with a journal, oldest first.
        recovery: Ends journals.
        confirmation_store: The questions of earlier turns.
        renew_attachments: Lets files count as used now, if there are any.
    """
    if job.rewinds and renew_attachments is not None:
        _keep_files_of_removed(before, session, renew_attachments)
    recovery.end_earlier(session, turns)
    # Denials first: a call must not keep an approval if the turn can't begin after all.
    for decision in sorted(job.decisions, key=lambda each: each.approved):
        confirmation_store.decide(session.session_id, decision, repeatable=True)
    _withdraw_questions(confirmation_store, session.session_id, job.continuation)


def _keep_files_of_removed(before: Session, after: Session, renew: Renew) -> None:
    """Let files that only removed messages refer to count as used now.

    The messages are back if the turn ends without an answer (docs/decisions/0110).
    """
    kept = {each.id for each in attachments_in(after.messages)}
    for attachment_id in {each.id for each in attachments_in(before.messages)} - kept:
        with suppress(AttachmentNotFound):
            renew([attachment_id])


def _withdraw_questions(
    confirmation_store: ConfirmationStore, session_id: str, continuation: Continuation
) -> None:
    """Withdraw the questions of earlier turns, except for calls that this turn resumes.

    Questions of agents refer to messages of other sessions, and belong to resumed calls: turns that
    resume nothing withdraw all questions, including approved ones, as an agent may make the same
    call again for another call.
    """
    if not continuation.open_calls:
        confirmation_store.withdraw_all(session_id)
        return
    confirmation_store.withdraw(
        asked
        for asked in confirmation_store.pending(session_id)
        if asked.agent_name is None and asked.message_id != continuation.asking_id
    )
