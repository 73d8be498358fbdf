"""Converts an agent's events to events of the turn that called it. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from chat.stream.agent_events import (
    AgentComplete,
    AgentExecution,
    AgentPlanning,
    AgentStarted,
    AgentToolCall,
    AgentToolResult,
)
from chat.stream.events import (
    ContentDelta,
    Event,
    StatusChanged,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolResultReceived,
)
from chat.stream.notes import Note
from chat.turn.phases import PhasePrompts


class Narration:
    """Turns the events of an agent's own turn into events of the turn that called it.

    Each event has the agent and its call, to distinguish parallel runs.

    Args:
        agent_name: The agent.
        call_index: The call's number within the calling turn.
        tool_call_id: The call.
        phases: The agent's current phase.
    """

    def __init__(
        self, agent_name: str, *, call_index: int, tool_call_id: str, phases: PhasePrompts
    ) -> None:
        self._who: dict[str, Any] = {
            "agent_name": agent_name,
            "call_index": call_index,
            "tool_call_id": tool_call_id,
        }
        self._phases = phases

    def started(self, instruction: str) -> AgentStarted:
        """Return the event that the run begins with."""
        return AgentStarted(**self._who, instruction=instruction)

    def completed(self, session_id: str, output: str) -> AgentComplete:
        """Return the event that the run ends with."""
        return AgentComplete(**self._who, session_id=session_id, output=output)

    def retell(self, events: Sequence[Event | Note]) -> list[Event]:
        """Return the events of the calling turn for the agent's events; most have none.

        A call that a person approved is only a note in the agent's turn, and shown as any other.
        """
        return [retold for event in events if (retold := self._retold(event)) is not None]

    def _retold(self, event: Event | Note) -> Event | None:
        if isinstance(event, ContentDelta):
            kind = AgentPlanning if self._phases.is_planning else AgentExecution
            return kind(**self._who, content=event.content)
        if isinstance(event, ToolCallStarted):
            return AgentToolCall(
                **self._who,
                tool_name=event.tool_name,
                arguments=event.arguments,
                inner_tool_call_id=event.tool_call_id,
            )
        if isinstance(event, ToolResultReceived):
            return self._result(event)
        if isinstance(event, ToolConfirmationRequired):
            inner = event.tool_call_id
            return msgspec.structs.replace(event, **self._who, inner_tool_call_id=inner)
        if isinstance(event, StatusChanged):
            return msgspec.structs.replace(event, tool_call_id=self._who["tool_call_id"])
        return None

    def _result(self, event: ToolResultReceived) -> AgentToolResult:
        fields = msgspec.structs.asdict(event) | self._who
        del fields["server"]
        return AgentToolResult(**fields, inner_tool_call_id=event.tool_call_id)
