"""How a turn ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from chat.approvals.confirmation import Confirmation
from chat.errors import TurnFailed
from chat.storage.journal import Entry
from chat.stream.notes import Suspended
from chat.turn.completion import ToolCallRecord, window_of
from chat.turn.state_machine import State
from chat.turn.turn_ids import time_of
from sessions_app.errors import MochiError
from sessions_app.messages import AssistantMessage, mark_cancelled
from sessions_app.session import Session
from sessions_app.variants import find_answer


@dataclass(slots=True)
class Outcome:
    """How a turn ended.

    Attributes:
        state: The final state.
        message: The answer that was saved, whole or partial; None when there was none.
        tool_calls: The tool calls that were executed, in order (seed 000 section 9.4).
        context_window: ``current_window``, ``usage_tokens`` and ``reason``.
        error: What ended the turn, for a failed or interrupted one.
        stopped: What was running when it was stopped: upstream, tools, agents.
        confirmations: What a suspended turn's calls wait for.
    """

    state: State = State.STARTING
    message: AssistantMessage | None = None
    tool_calls: list[ToolCallRecord] = field(default_factory=list)
    context_window: dict[str, Any] = field(default_factory=dict)
    error: MochiError | None = None
    stopped: dict[str, Any] = field(default_factory=dict)
    confirmations: Sequence[Confirmation] = ()

    def suspension(self) -> Suspended:
        """Return what the journal keeps of a suspended turn."""
        return Suspended(
            message_id=self.message.message_id if self.message else None,
            confirmations=msgspec.to_builtins(self.confirmations),
            tool_calls=self.tool_calls,
        )


def outcome_of(entries: Sequence[Entry], session: Session) -> Outcome:
    """Tell from its journal how a turn of another process ended.

    Args:
        entries: The whole journal.
        session: The session as it is after the turn.
    """
    last = {entry.event: entry for entry in entries}
    if "error" in last:
        return Outcome(state=State.FAILED, error=_error(dict(last["error"].value())))
    if "suspended" in last:
        return _suspended(dict(last["suspended"].value()), session)
    for name, state in (("message_complete", State.COMPLETED), ("cancelled", State.CANCELLED)):
        if name in last:
            payload = last[name].value()
            message = find_answer(session, payload["message_id"])
            if message is None:
                message = _as_told(payload, time_of(last["turn_started"].value()["turn_id"]))
            return Outcome(
                state=state,
                message=message,
                tool_calls=list(payload.get("tool_calls", ())),
                context_window=dict(payload.get("context_window") or window_of(session, message)),
            )
    return Outcome(state=State.FAILED, error=TurnFailed("INTERNAL_ERROR", "The turn is gone."))


def _suspended(note: dict[str, Any], session: Session) -> Outcome:
    return Outcome(
        state=State.SUSPENDED,
        message=find_answer(session, note["message_id"] or ""),
        tool_calls=note["tool_calls"],
        confirmations=msgspec.convert(note["confirmations"], list[Confirmation]),
    )


def _error(payload: dict[str, Any]) -> TurnFailed:
    details = dict(payload["details"])
    retryable = bool(details.pop("retryable", False))
    return TurnFailed(payload["code"], payload["message"], retryable=retryable, **details)


def _as_told(payload: Mapping[str, Any], timestamp: str) -> AssistantMessage:
    """Return an answer that its session has no more (regenerated, edited away), as it was told."""
    content = payload["content"]
    cancelled = "done_reason" not in payload
    return AssistantMessage(
        content=mark_cancelled(content) if cancelled else content,
        message_id=payload["message_id"],
        timestamp=timestamp,
        model=payload["model"],
        thinking=payload["thinking"],
        eval_count=payload.get("eval_count"),
        prompt_eval_count=payload.get("prompt_eval_count"),
        done_reason=payload.get("done_reason"),
        cancelled=cancelled,
    )
