"""Defines the outcome of a turn, and makes the events that announce it. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from chat.approvals.confirmation import Confirmation
from chat.context.window import WindowChoice
from chat.stream.attached_file import AttachedFile
from chat.stream.events import (
    Cancelled,
    Done,
    Event,
    Failed,
    FinishedCall,
    MessageComplete,
    MessageTaken,
)
from chat.stream.notes import Suspended
from chat.stream.usage import CallUsage, TurnUsage
from chat.turn.state_machine import State
from models_app.errors import REQUEST_REFUSALS
from sessions_app.errors import MochiError
from sessions_app.messages import AssistantMessage, Usage, UserMessage, usage_of
from sessions_app.session import Session


@dataclass(slots=True)
class Outcome:
    """The end of a turn.

    Attributes:
        state: The final state.
        message: The saved answer, whole or partial; None without one.
        tool_calls: The tool calls that were executed, in order.
        context_window: ``current_window``, ``usage_tokens`` and ``reason``.
        error: The error that ended a failed or interrupted turn.
        stopped: What was running when the turn was stopped: upstream, tools, agents.
        confirmations: The pending approvals of a suspended turn.
        usage: The tokens, times and cost of the turn, as far as known.
    """

    state: State = State.STARTING
    message: AssistantMessage | None = None
    tool_calls: list[FinishedCall] = field(default_factory=list)
    context_window: dict[str, Any] = field(default_factory=dict)
    error: MochiError | None = None
    stopped: dict[str, Any] = field(default_factory=dict)
    confirmations: Sequence[Confirmation] = ()
    usage: TurnUsage | None = None

    @property
    def has_answer(self) -> bool:
        """Return whether the turn ended with an answer, not with calls for its client."""
        message = self.message
        return self.state is State.COMPLETED and message is not None and not message.tool_calls

    @property
    def blames_request(self) -> bool:
        """Return whether the request itself is to blame for the error."""
        return isinstance(self.error, REQUEST_REFUSALS)

    def suspension(self) -> Suspended:
        """Return the journal's note about a suspended turn."""
        return Suspended(
            message_id=self.message.message_id if self.message else None,
            # Without what is for servers alone.
            confirmations=[
                msgspec.to_builtins(msgspec.structs.replace(each, retry=None))
                for each in self.confirmations
            ],
            tool_calls=self.tool_calls,
        )


def tokens_of(message: AssistantMessage) -> int:
    """Return the tokens of request and answer together, as the provider counted them."""
    return (message.prompt_eval_count or 0) + (message.eval_count or 0)


def window_used(window: WindowChoice, message: AssistantMessage | None) -> dict[str, Any]:
    """Return the ``context_window`` of a turn that ends with a message, if with one."""
    return {
        "current_window": window.window,
        "usage_tokens": tokens_of(message) if message else 0,
        "reason": window.reason,
    }


def window_of(session: Session, message: AssistantMessage) -> dict[str, Any]:
    """Return the ``context_window`` of an ended turn from its session."""
    return {
        "current_window": session.window.current_window,
        "usage_tokens": tokens_of(message),
        "reason": session.window.last_adjustment or "no_adjustment",
    }


def failed(error: MochiError, usage: TurnUsage | None = None) -> Failed:
    """Return the event for an error that ended a turn."""
    details = {**error.details, "retryable": error.retryable}
    return Failed(
        code=error.code, message=error.message, details=details, turn_usage=known_usage(usage)
    )


def known_usage(usage: TurnUsage | None) -> TurnUsage | UnsetType:
    """Return the usage of a turn as a field of events: ``UNSET`` instead of None."""
    return UNSET if usage is None else usage


def _usage_of_call(message: AssistantMessage) -> CallUsage:
    """Return the usage of an answer, without its cost (docs/decisions/0160)."""
    usage = msgspec.structs.asdict(usage_of(message) or Usage())
    return CallUsage(
        **usage | {"cost_usd": None},
        prompt_tokens=message.prompt_eval_count,
        completion_tokens=message.eval_count,
        total_tokens=tokens_of(message),
    )


def completed(
    message: AssistantMessage,
    *,
    turn_id: str,
    context_window: Mapping[str, Any],
    tool_calls: Sequence[FinishedCall],
    usage: TurnUsage | None = None,
    parsed: msgspec.Raw | UnsetType = UNSET,
) -> MessageComplete:
    """Return the event for a saved answer.

    Args:
        message: The answer.
        turn_id: Its turn.
        context_window: ``current_window``, ``usage_tokens`` and ``reason``.
        tool_calls: The calls that were executed, in order.
        usage: The tokens, times and cost of the turn.
        parsed: The JSON of an answer that had to fit a schema.
    """
    return MessageComplete(
        message_id=message.message_id,
        model=message.model,
        eval_count=message.eval_count,
        prompt_eval_count=message.prompt_eval_count,
        context_window=context_window,
        content=message.content,
        thinking=message.thinking,
        tool_calls=tool_calls,
        turn_id=turn_id,
        done_reason=message.done_reason,
        usage=_usage_of_call(message),
        answered_by=UNSET if message.answered_by is None else message.answered_by,
        turn_usage=known_usage(usage),
        parsed=parsed,
    )


def cancelled(message: AssistantMessage, *, text: str, usage: TurnUsage | None) -> Cancelled:
    """Return the event for a cancelled turn, with its saved answer as the model wrote it."""
    return Cancelled(
        content=text,
        thinking=message.thinking,
        model=message.model,
        message_id=message.message_id,
        turn_usage=known_usage(usage),
    )


def taken(session: Session, message_ids: Collection[str]) -> Sequence[MessageTaken]:
    """Return the events for messages that people sent while the turn ran, and that it took."""
    return [
        MessageTaken(
            message_id=each.message_id,
            content=each.content,
            user_message_index=index,
            attachments=AttachedFile.of(each.attachments) or UNSET,
        )
        for index, each in enumerate(session.messages)
        if isinstance(each, UserMessage) and each.message_id in message_ids
    ]


def done(
    last: Sequence[Event],
    message: AssistantMessage | None,
    *,
    session: Session,
    usage: TurnUsage | None,
) -> Done:
    """Return the event that ends a stream, with the usage unless an event before it has it."""
    tells_usage = any(isinstance(event, MessageComplete | Cancelled | Failed) for event in last)
    return Done(
        session_id=session.session_id,
        saved_at=UNSET if message is None else message.timestamp,
        turn_usage=UNSET if tells_usage else known_usage(usage),
        queued=len(session.inbox.messages) or UNSET,
    )
