"""How a turn ended."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from chat.approvals.confirmation import Confirmation
from chat.stream.notes import Suspended
from chat.turn.completion import ToolCallRecord
from chat.turn.state_machine import State
from sessions_app.errors import MochiError
from sessions_app.messages import AssistantMessage


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
