"""Declares what observes turns and tool calls, and logs turns (docs/decisions/0048)."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from chat.turn.state_machine import State
from models_app.language_model import Purpose
from sessions_app.messages import NO_EXTRA, AssistantMessage, Message, Usage
from tools_app.toolset import ToolResult

logger = logging.getLogger(__name__)


Dialect = Literal[
    "native", "chat_completions", "responses", "messages", "ollama", "ai_sdk", "ag_ui", "agent"
]
"""The protocol of the request for a turn; another turn requests an agent's turn."""


class TurnStart(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that starts.

    Attributes:
        session_id: Its session.
        turn_id: The turn.
        model: The session's model.
        purpose: ``chat``, or ``agent`` for an agent's turn.
        agent: The agent that runs the turn; None for a user's turn.
        dialect: The protocol of the request.
        said: The new messages at its start.
    """

    session_id: str
    turn_id: str
    model: str
    purpose: Purpose
    agent: str | None = None
    dialect: Dialect = "native"
    said: Sequence[Message] = ()


class ToolStart(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A tool call that begins. The same object identifies the call until its end.

    Attributes:
        name: The tool's name, as the model knows it.
        tool_call_id: The call's id within its session.
        session_id: The session of the calling turn; for an agent's calls, the agent's own session.
        is_agent: Whether the call runs an agent's turn, which is observed as a turn, too.
        arguments: The arguments.
    """

    name: str
    tool_call_id: str
    session_id: str
    is_agent: bool
    arguments: Mapping[str, Any] = NO_EXTRA


class ToolEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that has ended.

    Attributes:
        start: The call.
        outcome: ``ok``, the error's code, ``failed`` without one, or ``interrupted``: the turn was
            stopped or suspended.
        server: The MCP server that ran it; None for other tools.
        seconds: The duration.
        result: The result; None if it was interrupted.
    """

    start: ToolStart
    outcome: str
    server: str | None
    seconds: float
    result: ToolResult | None = None

    @classmethod
    def of(cls, start: ToolStart, result: ToolResult | None, seconds: float) -> "ToolEnd":
        """Return the end of a call with this result."""
        if result is None:
            outcome = "interrupted"
        else:
            outcome = "ok" if result.success else result.error_code or "failed"
        server = result.server if result else None
        return cls(start=start, outcome=outcome, server=server, seconds=seconds, result=result)


class TurnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has ended.

    Attributes:
        start: The turn.
        state: Its final state.
        error_code: The code of the error that ended it, if one did.
        rounds: The number of rounds.
        tool_calls: The number of executed tool calls.
        seconds: The duration.
        answer: The last answer, whole or partial; None if there was none.
        usage: The tokens and cost of its model calls, as far as known.
    """

    start: TurnStart
    state: State
    error_code: str | None
    rounds: int
    tool_calls: int
    seconds: float
    answer: AssistantMessage | None = None
    usage: Usage | None = None


class TurnObserver:
    """Observes the turns of this process; does nothing by itself.

    Called on the event loop: must not block or raise. The end of a dead process's turn is not
    observed; ``chat.remote.recovery`` seals it.
    """

    def turn_started(self, turn: TurnStart, /) -> None:
        """Observe the start of a turn, whose session is claimed."""

    def turn_ended(self, turn: TurnEnd, /) -> None:
        """Observe the end of a turn; called once for each start."""

    def tool_started(self, start: ToolStart, /) -> None:
        """Observe the start of a tool call, which was allowed and, if necessary, approved.

        Called in the task that runs the tool, so context variables set here apply to it.
        """

    def tool_ended(self, end: ToolEnd, /) -> None:
        """Observe the end of a tool call; called once for each start, in the same task."""


class TurnObservers(TurnObserver):
    """Passes turns to several observers, in order."""

    def __init__(self, observers: Sequence[TurnObserver]) -> None:
        self._observers = tuple(observers)

    def turn_started(self, turn: TurnStart, /) -> None:
        """Notify the observers of the start of a turn."""
        for each in self._observers:
            each.turn_started(turn)

    def turn_ended(self, turn: TurnEnd, /) -> None:
        """Notify the observers of the end of a turn."""
        for each in self._observers:
            each.turn_ended(turn)

    def tool_started(self, start: ToolStart, /) -> None:
        """Notify the observers of the start of a tool call."""
        for each in self._observers:
            each.tool_started(start)

    def tool_ended(self, end: ToolEnd, /) -> None:
        """Notify the observers of the end of a tool call."""
        for each in self._observers:
            each.tool_ended(end)


class TurnLog(TurnObserver):
    """Logs turns: a line at DEBUG for the start, and one at INFO for the end."""

    def turn_started(self, turn: TurnStart, /) -> None:
        """Log the start."""
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("turn started", extra={"model": turn.model, "purpose": turn.purpose})

    def turn_ended(self, turn: TurnEnd, /) -> None:
        """Log the end."""
        extra = {
            "state": turn.state.value,
            "purpose": turn.start.purpose,
            "rounds": turn.rounds,
            "tool_calls": turn.tool_calls,
            "seconds": round(turn.seconds, 3),
        }
        if turn.error_code is not None:
            extra["code"] = turn.error_code
        logger.info("turn ended", extra={**extra, "sentence": _sentence_on(turn)})


def _sentence_on(turn: TurnEnd) -> str:
    """Return ``qwen3:14b: 2.3 s, 812 tokens in, 120 out, $0.0012``."""
    start, usage = turn.start, turn.usage or Usage()
    who = start.model if start.agent is None else f"{start.agent} with {start.model}"
    end = f"{turn.state.value} ({turn.error_code})" if turn.error_code else turn.state.value
    parts = [
        turn.state is not State.COMPLETED and end,
        f"{turn.seconds:.1f} s",
        usage.input_tokens is not None and f"{usage.input_tokens:,} tokens in",
        usage.output_tokens is not None and f"{usage.output_tokens:,} out",
        usage.cost_usd not in (None, "0") and f"${usage.cost_usd}",  # models of one's own are free
    ]
    return f"{who}: {', '.join(part for part in parts if part)}"


TURN_LOG = TurnLog()
