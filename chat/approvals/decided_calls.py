"""Defines calls of tools with the decisions on them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from chat.approvals.confirmation import ApprovalDecision, Confirmation
from sessions_app.messages import INTERRUPTED_RESULT, ToolCall
from tools_app.errors import CONFIRMATION_TIMEOUT, EXECUTION_DENIED
from tools_app.toolset import ToolResult

_NOBODY = "This call needs an approval, which nobody can give here. It did not run."
_TOO_LATE = "Nobody approved this call in time. It did not run."


class NumberedCall(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs a call with its number within the turn, from 0."""

    call: ToolCall
    index: int


class DecidedCall(NumberedCall, frozen=True, kw_only=True):
    """Represents a call that was approved, refused, or needs no approval.

    Attributes:
        arguments: Those that it runs with: the model's, or the person's edit of them.
        approved: Whether a person was asked and agreed; False also without a question.
        was_edited: Whether the person changed the arguments.
        confirmation_id: The question that was answered about it, if one was.
        refusal: The result that the model gets instead, if it must not run.
        questions: Those with which the call ended before: it is repeated with the answers.
    """

    arguments: Mapping[str, Any]
    approved: bool = False
    was_edited: bool = False
    confirmation_id: str | None = None
    refusal: ToolResult | None = None
    questions: tuple[Confirmation, ...] = ()


def free(item: NumberedCall) -> DecidedCall:
    """Return a call that needs no approval."""
    return DecidedCall(call=item.call, index=item.index, arguments=item.call.arguments)


def refused(
    item: NumberedCall,
    code: str = EXECUTION_DENIED,
    message: str = _NOBODY,
    confirmation_id: str | None = None,
) -> DecidedCall:
    """Return a call that must not run; by default because nobody can approve it."""
    refusal = ToolResult(success=False, error_code=code, error_message=message)
    return msgspec.structs.replace(free(item), refusal=refusal, confirmation_id=confirmation_id)


def decided(item: NumberedCall, decision: ApprovalDecision | None) -> DecidedCall:
    """Return a call with the answer about it; without one, its approval was used before."""
    if decision is None:
        return refused(item, EXECUTION_DENIED, "The approval of this call was used already.")
    if decision.approved:
        return msgspec.structs.replace(
            free(item),
            arguments=decision.arguments,
            approved=True,
            was_edited=decision.edited,
            confirmation_id=decision.confirmation_id,
        )
    is_late = decision.reason == "timeout"
    return refused(
        item,
        CONFIRMATION_TIMEOUT if is_late else EXECUTION_DENIED,
        _TOO_LATE if is_late else "The user denied this call. It did not run.",
        decision.confirmation_id,
    )


def repeated(item: NumberedCall, questions: Sequence[Confirmation]) -> DecidedCall:
    """Return a call that was allowed before, and has ended with questions."""
    retry = questions[0].retry
    if retry is None:
        return free(item)
    return msgspec.structs.replace(
        free(item),
        arguments=retry.arguments,
        approved=retry.approval_id is not None,
        was_edited=retry.was_edited,
        confirmation_id=retry.approval_id,
        questions=tuple(questions),
    )


def lost(item: NumberedCall) -> DecidedCall:
    """Return a call that may have run, and does not run again."""
    refusal = ToolResult(success=False, result=INTERRUPTED_RESULT)
    return msgspec.structs.replace(free(item), refusal=refusal)
