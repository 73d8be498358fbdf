"""Derives how a turn ended from its journal and its session. Pure."""

import msgspec
from msgspec import UNSET, UnsetType

from chat.approvals.confirmation import Confirmation
from chat.errors import TurnFailed
from chat.remote.replay import ReplayedTurn
from chat.stream.events import Cancelled, Failed, MessageComplete
from chat.stream.notes import Suspended
from chat.stream.usage import TurnUsage
from chat.turn.outcome import Outcome, window_of
from chat.turn.state_machine import State
from chat.turn.turn_ids import time_of
from chat.turn.usage import saved_usage
from sessions_app.decoding import convert_to
from sessions_app.messages import AssistantMessage, mark_cancelled
from sessions_app.session import Session
from sessions_app.variants import find_answer


def outcome_of(turn: ReplayedTurn, session: Session) -> Outcome:
    """Return how a turn of another process ended.

    Args:
        turn: The whole turn.
        session: The session as it is after the turn.
    """
    match turn.ending:
        case Failed() as event:
            return Outcome(state=State.FAILED, error=_error(event), usage=_usage(event.turn_usage))
        case MessageComplete() as event:
            message = _answer(event, turn, session)
            return Outcome(
                state=State.COMPLETED,
                message=message,
                tool_calls=list(event.tool_calls),
                context_window=dict(event.context_window) or window_of(session, message),
                usage=_usage(event.turn_usage),
            )
        case Cancelled() as event:
            message = _answer(event, turn, session)
            return Outcome(
                state=State.CANCELLED,
                message=message,
                context_window=window_of(session, message),
                usage=_usage(event.turn_usage),
            )
    if turn.suspended is not None:
        return _suspended(turn, turn.suspended, session)
    return Outcome(
        state=State.FAILED, error=TurnFailed("INTERNAL_ERROR", "The turn no longer exists.")
    )


def _suspended(turn: ReplayedTurn, note: Suspended, session: Session) -> Outcome:
    return Outcome(
        state=State.SUSPENDED,
        message=find_answer(session, note.message_id or ""),
        tool_calls=list(note.tool_calls),
        confirmations=convert_to(note.confirmations, list[Confirmation]),
        usage=saved_usage(session, turn.turn_id),
    )


def _usage(usage: TurnUsage | UnsetType) -> TurnUsage | None:
    return None if usage is UNSET else usage


def _error(event: Failed) -> TurnFailed:
    details = dict(event.details)
    retryable = bool(details.pop("retryable", False))
    return TurnFailed(event.code, event.message, retryable=retryable, **details)


def _answer(
    event: MessageComplete | Cancelled, turn: ReplayedTurn, session: Session
) -> AssistantMessage:
    """Return the answer from the session, or from its event if the session lacks it now."""
    message = find_answer(session, event.message_id)
    if message is not None:
        return message
    message = AssistantMessage(
        content=event.content,
        message_id=event.message_id,
        timestamp=time_of(turn.turn_id),
        model=event.model,
        thinking=event.thinking,
        turn_id=turn.turn_id,
    )
    if isinstance(event, Cancelled):
        content = mark_cancelled(event.content)
        return msgspec.structs.replace(message, content=content, cancelled=True)
    return msgspec.structs.replace(
        message,
        eval_count=event.eval_count,
        prompt_eval_count=event.prompt_eval_count,
        done_reason=event.done_reason,
        answered_by=None if event.answered_by is UNSET else event.answered_by,
    )
