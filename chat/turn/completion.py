"""How a finished answer, the tool calls on the way to it, and errors are told. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from chat.stream.events import Failed, MessageComplete
from sessions_app.errors import MochiError
from sessions_app.messages import AssistantMessage
from sessions_app.session import Session


class ToolCallRecord(TypedDict):
    """One entry of ``tool_calls_executed`` (seed 000 section 9.4)."""

    tool_name: str
    tool_call_id: str
    call_index: int
    arguments: Mapping[str, Any]
    success: bool
    result: str | None
    error_message: str | None
    execution_time_ms: float


def tokens_of(message: AssistantMessage) -> int:
    """Return the tokens of request and answer together, as the provider counted them."""
    return (message.prompt_eval_count or 0) + (message.eval_count or 0)


def window_of(session: Session, message: AssistantMessage) -> dict[str, Any]:
    """Return ``context_window`` of a turn that is told from its session, after it ended."""
    return {
        "current_window": session.window.current_window,
        "usage_tokens": tokens_of(message),
        "reason": session.window.last_adjustment or "no_adjustment",
    }


def failed(error: MochiError) -> Failed:
    """Return the event that tells what ended a turn."""
    details = {**error.details, "retryable": error.retryable}
    return Failed(code=error.code, message=error.message, details=details)


def completed(
    message: AssistantMessage,
    *,
    turn_id: str,
    context_window: Mapping[str, Any],
    tool_calls: Sequence[ToolCallRecord],
) -> MessageComplete:
    """Return the event that tells of an answer that is on disk.

    Args:
        message: The answer.
        turn_id: Its turn.
        context_window: ``current_window``, ``usage_tokens`` and ``reason``.
        tool_calls: The entries of ``tool_calls_executed``.
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
        usage={
            "prompt_tokens": message.prompt_eval_count,
            "completion_tokens": message.eval_count,
            "total_tokens": tokens_of(message),
        },
    )
