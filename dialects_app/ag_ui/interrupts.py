"""Converts requests for approval to AG-UI interrupts. Pure."""

from collections.abc import Mapping
from typing import Any

from chat.approvals.confirmation import Confirmation
from chat.stream.events import ToolConfirmationRequired

RESPONSE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "description": "true, and nothing else, lets it run"},
        "editedArgs": {"type": "object", "description": "The arguments to run it with instead"},
    },
    "required": ["approved"],
}
"""The schema of the answers to interrupts."""
_NO_VALUES: Mapping[str, Any] = {"type": "object", "properties": {}}


def interrupt_of(
    question: ToolConfirmationRequired | Confirmation,
    *,
    tool_call_id: str | None,
    subagent_run_id: str | None = None,
) -> dict[str, Any]:
    """Return the interrupt for a request for approval, or for a server's question.

    Args:
        question: What is asked, in a stream or pending.
        tool_call_id: The displayed id of the call, if it is displayed.
        subagent_run_id: The agent's run, if an agent made the call.
    """
    who = f" for the agent {question.agent_name}" if question.agent_name else ""
    interrupt: dict[str, Any] = {
        "id": question.confirmation_id,
        "reason": "tool_call",
        "message": f"May the tool {question.tool_name} run{who}?",
        "toolCallId": tool_call_id,
        "responseSchema": RESPONSE_SCHEMA,
        "expiresAt": question.expires_at or None,
        "subagentRunId": subagent_run_id,
    }
    about: dict[str, Any] = {
        "toolName": question.tool_name,
        "arguments": question.arguments,
        "agentName": question.agent_name or None,
        "askedBecause": question.reason or None,
    }
    if question.kind in ("input", "url"):  # values for a form, or an address to open
        about |= {"server": question.server or None, "url": question.url or None}
        interrupt |= {
            "reason": "input",
            "message": question.message,
            "responseSchema": question.schema or _NO_VALUES,
        }
    return _known(**interrupt, metadata=_known(**about))


def _known(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
