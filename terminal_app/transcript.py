"""Shows the events of a turn: for people, or as lines of JSON."""

import json
from collections.abc import Callable
from typing import IO

from msgspec import UnsetType

from chat.stream.agent_events import (
    AgentComplete,
    AgentExecution,
    AgentPlanning,
    AgentStarted,
    AgentToolCall,
    AgentToolResult,
)
from chat.stream.events import (
    Cancelled,
    ContentDelta,
    ContentReset,
    Event,
    Failed,
    MessageComplete,
    MessageQueued,
    MessageTaken,
    StatusChanged,
    ThinkingContentDelta,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolResultReceived,
    TurnResumed,
)
from chat.stream.numbered_event import NumberedEvent
from terminal_app.calls import shown_call, shown_text
from terminal_app.console import Console

Show = Callable[[str, NumberedEvent], None]
"""Shows an event of a turn, given the turn's id and the event."""


class JsonLines:
    """Writes each event as a line of JSON."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def __call__(self, turn_id: str, numbered: NumberedEvent) -> None:
        """Write one event."""
        event = {
            "id": f"{turn_id}:{numbered.number}",
            "event": numbered.name,
            "data": json.loads(numbered.data),
        }
        self._out.write(f"{json.dumps(event)}\n")
        self._out.flush()


class Transcript:
    """Prints a turn for people.

    The answer goes to the console's ``out``. On a terminal the reasoning, and what agents say,
    comes before it, dimmed; elsewhere it is left out, so that a pipe gets the answer and nothing
    else. What tools do is information.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._out = console.out
        self._shows_thinking = console.out.isatty()
        self._thinking = False
        self._at_line_start = True

    def __call__(self, _turn_id: str, numbered: NumberedEvent) -> None:
        """Print one event."""
        match event := numbered.decode():
            case (
                ThinkingContentDelta(content=text)
                | AgentPlanning(content=text)
                | AgentExecution(content=text)
            ):
                if self._shows_thinking:
                    self._print(text, thinking=True)
            case ContentDelta(content=text):
                self._print(text)
            case MessageComplete() | Cancelled() | Failed() | ToolConfirmationRequired():
                self.end_line()
            case _ if (note := _note_of(event)) is not None:
                self._note(note)

    def end_line(self) -> None:
        """Go to the beginning of a line, if something stands on the last one."""
        if self._thinking:
            self._console.dim_answer(begin=False)
            self._thinking = False
        if not self._at_line_start:
            self._console.answer("\n")
            self._at_line_start = True
        self._out.flush()

    def _print(self, text: str, *, thinking: bool = False) -> None:
        if self._thinking and not thinking:
            self._console.dim_answer(begin=False)
            self._console.answer("\n\n")
        elif thinking and not self._thinking:
            self._console.dim_answer(begin=True)
        self._thinking = thinking
        self._console.answer(text)
        self._out.flush()
        self._at_line_start = text.endswith("\n")

    def _note(self, text: str) -> None:
        self.end_line()
        self._console.info(f"[{text}]")


def _note_of(event: Event | None) -> str | None:
    """Return what is said about an event; None for those that are shown in another way, or not."""
    note: str | None = None
    match event:
        case ContentReset() | TurnResumed(keeps="results"):
            note = "the answer comes anew"
        case MessageQueued(position=number, when_busy="queue"):
            note = (
                f"queued as number {number}; Enter again: the model reads it before its next step"
            )
        case MessageQueued():
            note = "the model reads it before its next step"
        case MessageTaken(content=text):
            note = f"> {text}"
        case ToolCallStarted() | AgentToolCall() as call:
            note = shown_call(call)
        case ToolResultReceived() | AgentToolResult() as result:
            outcome = result.summary if result.success else result.error_message or ""
            note = f"{shown_text(result.tool_name)}: {shown_text(outcome)}"
        case AgentStarted(agent_name=agent, instruction=instruction):
            note = f"{agent} begins: {shown_text(instruction)}"
        case AgentComplete(agent_name=agent):
            note = f"{agent} is done"
        case StatusChanged(state="warning" | "waiting_for_tool", message=str(words)):
            note = shown_text(words)
        case StatusChanged(state=state, progress=UnsetType()):
            note = None if state == "waiting_for_confirmation" else state.replace("_", " ")
    return note
