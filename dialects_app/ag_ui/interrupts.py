"""Converts requests for approval to AG-UI interrupts. Pure."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

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


def interrupt_of(
    asked: ToolConfirmationRequired, *, tool_call_id: str, subagent_run_id: str | None = None
) -> dict[str, Any]:
    """Return the interrupt for a request for approval in a stream.

    Args:
        asked: The request for approval.
        tool_call_id: The displayed id of the call.
        subagent_run_id: The agent's run, if an agent made the call.
    """
    return _interrupt(
        asked.confirmation_id,
        tool_call_id=tool_call_id,
        tool_name=asked.tool_name,
        arguments=asked.arguments,
        expires_at=None if asked.expires_at is UNSET else asked.expires_at,
        agent_name=None if asked.agent_name is UNSET else asked.agent_name,
        asked_because=None if asked.reason is UNSET else asked.reason,
        subagent_run_id=subagent_run_id,
    )


def interrupt_of_pending(asked: Confirmation) -> dict[str, Any]:
    """Return the interrupt for a pending approval of a session."""
    return _interrupt(
        asked.confirmation_id,
        tool_call_id=asked.tool_call_id if asked.agent_name is None else None,
        tool_name=asked.tool_name,
        arguments=asked.arguments,
        expires_at=asked.expires_at,
        agent_name=asked.agent_name,
        asked_because=asked.reason,
    )


def _interrupt(
    name: str,
    *,
    tool_call_id: str | None,
    tool_name: str,
    arguments: Mapping[str, Any],
    expires_at: str | None,
    agent_name: str | None,
    asked_because: str | None,
    subagent_run_id: str | None = None,
) -> dict[str, Any]:
    who = "" if agent_name is None else f" for the agent {agent_name}"
    about = {
        "toolName": tool_name,
        "arguments": arguments,
        "agentName": agent_name,
        "askedBecause": asked_because,
    }
    shown = {
        "id": name,
        "reason": "tool_call",
        "message": f"May the tool {tool_name} run{who}?",
        "toolCallId": tool_call_id,
        "responseSchema": RESPONSE_SCHEMA,
        "expiresAt": expires_at,
        "subagentRunId": subagent_run_id,
        "metadata": {key: value for key, value in about.items() if value is not None},
    }
    return {key: value for key, value in shown.items() if value is not None}
