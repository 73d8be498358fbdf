"""Events of turns, and chunks as the AI SDK reads them."""

from collections.abc import Iterable, Sequence
from typing import Any

from chat.stream.agent_events import (
    AgentComplete,
    AgentExecution,
    AgentPlanning,
    AgentStarted,
    AgentToolCall,
    AgentToolResult,
)
from chat.stream.events import (
    Event,
    StatusChanged,
    ToolConfirmationRequired,
    ToolResultReceived,
)
from dialects_app.ai_sdk.projector import UIMessageProjector
from tests.unit.dialects_app.chat_completions.journals import TURN
from tests.unit.dialects_app.turns import numbered

SESSION = "a1b2c3d4e5"
WAITING = StatusChanged(state="waiting_for_confirmation")


def question(number: int = 0, **fields: Any) -> ToolConfirmationRequired:
    return ToolConfirmationRequired(
        tool_name="add",
        arguments={"a": number},
        call_index=number,
        tool_call_id=f"own_{number}",
        confirmation_id=f"conf_{number}",
        **fields,
    )


def result(number: int = 0, **fields: Any) -> ToolResultReceived:
    return ToolResultReceived(
        **{
            "tool_name": "add",
            "call_index": number,
            "tool_call_id": f"own_{number}",
            "success": True,
            "result": "3",
            "error_message": None,
            "summary": "3",
            "execution_time_ms": 1,
            **fields,
        }
    )


def agent_run(pieces: Sequence[str] = ("1. Look.",)) -> list[Event]:
    """Return all events of an agent's run."""
    whose: dict[str, Any] = {"agent_name": "clerk", "call_index": 0, "tool_call_id": "own_0"}
    inner: dict[str, Any] = {"tool_name": "list_dir", "inner_tool_call_id": "inner_0"}
    return [
        AgentStarted(**whose, instruction="Look around."),
        *(AgentPlanning(**whose, content=piece) for piece in pieces),
        AgentToolCall(**whose, **inner, arguments={}),
        AgentToolResult(
            **whose,
            **inner,
            success=True,
            result="nothing",
            error_message=None,
            summary="nothing",
            execution_time_ms=1,
        ),
        AgentExecution(**whose, content="It is empty."),
        AgentComplete(**whose, session_id=SESSION, output="It is empty."),
    ]


def projected(events: Iterable[Event], **how: Any) -> bytes:
    return UIMessageProjector(SESSION, TURN, **how).feed(numbered(events))


def kinds(chunks: Iterable[Any]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


def text_of(chunks: Iterable[Any], kind: str = "text") -> str:
    return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == f"{kind}-delta")
