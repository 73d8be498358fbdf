"""Declares the port that observes turns and tool calls, and logs turns (docs/decisions/0048)."""

import logging
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import msgspec

from chat.turn.state_machine import State
from models_app.language_model import Purpose
from sessions_app.messages import NO_EXTRA, AssistantMessage, Message
from tools_app.toolset import ToolResult

logger = logging.getLogger(__name__)


Dialect = Literal["native", "chat_completions", "responses", "ai_sdk", "ag_ui", "agent"]
"""The protocol that a turn was asked for by; an agent's turn was by another turn."""


class TurnStart(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that starts.

    Attributes:
        session_id: Its session.
        turn_id: The turn.
        model: The session's model.
        purpose: ``chat``, or ``agent`` for a turn that another one called.
        agent: The agent that runs the turn; None for a user's turn.
        dialect: The protocol of the request.
        said: The new messages that it begins with.
    """

    session_id: str
    turn_id: str
    model: str
    purpose: Purpose
    agent: str | None = None
    dialect: Dialect = "native"
    said: Sequence[Message] = ()


class ToolStart(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A tool call that begins. The one object stands for the call until its end.

    Attributes:
        name: The tool's name, as the model knows it.
        tool_call_id: The call's id within its session.
        session_id: The session whose turn calls; an agent's own one for the calls of an agent.
        is_agent: Whether the call is an agent's turn, which is observed as such too.
        arguments: What it is called with.
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
        server: The MCP server that ran it; None for others.
        seconds: How long it ran.
        result: What it returned; None where it was interrupted.
    """

    start: ToolStart
    outcome: str
    server: str | None
    seconds: float
    result: ToolResult | None = None


class TurnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has ended.

    Attributes:
        start: The turn.
        state: Its final state.
        error_code: The code of the error that ended it, if one did.
        rounds: How many times its model was asked.
        tool_calls: How many tool calls were executed.
        seconds: How long it ran.
        answer: The last answer, whole or partial; None if there was none.
    """

    start: TurnStart
    state: State
    error_code: str | None
    rounds: int
    tool_calls: int
    seconds: float
    answer: AssistantMessage | None = None


class TurnObserver(Protocol):
    """Sees the turns of this process. Called on the event loop: must not block and must not raise.

    A turn that a dead process left has no end here; ``chat.remote.recovery`` seals it.
    """

    def turn_started(self, turn: TurnStart, /) -> None:
        """Take note of a turn whose session is claimed and whose engine starts."""
        ...

    def turn_ended(self, turn: TurnEnd, /) -> None:
        """Take note of its end, which comes once for each start."""
        ...

    def tool_started(self, start: ToolStart, /) -> None:
        """Take note of a tool call that was allowed, approved where that is needed, and runs.

        Runs in the task that runs the tool, so context variables that are set here hold for it.
        """
        ...

    def tool_ended(self, end: ToolEnd, /) -> None:
        """Take note of its end, which comes once for each start, in the same task."""
        ...


class ToolCallInProgress:
    """Measures one call, as a context manager, and tells the observer of start and end.

    Attributes:
        result: What the tool returned, once it has.
    """

    __slots__ = ("_begun", "_observer", "_start", "result")

    def __init__(self, observer: TurnObserver, start: ToolStart) -> None:
        self.result: ToolResult | None = None
        self._observer = observer
        self._start = start
        self._begun = time.perf_counter()

    def __enter__(self) -> Self:
        """Tell of the start."""
        self._observer.tool_started(self._start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Tell of the end."""
        result = self.result
        self._observer.tool_ended(
            ToolEnd(
                start=self._start,
                outcome=_outcome(result),
                server=result.server if result else None,
                seconds=time.perf_counter() - self._begun,
                result=result,
            )
        )


def _outcome(result: ToolResult | None) -> str:
    if result is None:
        return "interrupted"
    return "ok" if result.success else result.error_code or "failed"


class TurnObservers:
    """Passes turns to several observers, in order."""

    def __init__(self, observers: Sequence[TurnObserver]) -> None:
        self._observers = tuple(observers)

    def turn_started(self, turn: TurnStart, /) -> None:
        """Tell the observers of the start."""
        for each in self._observers:
            each.turn_started(turn)

    def turn_ended(self, turn: TurnEnd, /) -> None:
        """Tell the observers of the end."""
        for each in self._observers:
            each.turn_ended(turn)

    def tool_started(self, start: ToolStart, /) -> None:
        """Tell the observers of the start of a tool call."""
        for each in self._observers:
            each.tool_started(start)

    def tool_ended(self, end: ToolEnd, /) -> None:
        """Tell the observers of its end."""
        for each in self._observers:
            each.tool_ended(end)


class TurnLog:
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
        logger.info("turn ended", extra=extra)

    def tool_started(self, start: ToolStart, /) -> None:
        """Do nothing: what runs tools has a log of its own."""

    def tool_ended(self, end: ToolEnd, /) -> None:
        """Do nothing."""


TURN_LOG = TurnLog()
