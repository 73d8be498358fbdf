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
_NO_VALUES: Mapping[str, Any] = {"type": "object", "properties": {}}


def interrupt_of(
    question: ToolConfirmationRequired, *, tool_call_id: str, subagent_run_id: str | None = None
) -> dict[str, Any]:
    """Return the interrupt for a request for approval in a stream.

    Args:
        question: The request for approval.
        tool_call_id: The displayed id of the call.
        subagent_run_id: The agent's run, if an agent made the call.
    """
    interrupt = _interrupt(
        question.confirmation_id,
        tool_call_id=tool_call_id,
        tool_name=question.tool_name,
        arguments=question.arguments,
        expires_at=None if question.expires_at is UNSET else question.expires_at,
        agent_name=None if question.agent_name is UNSET else question.agent_name,
        asked_because=None if question.reason is UNSET else question.reason,
        subagent_run_id=subagent_run_id,
    )
    return interrupt if question.kind is UNSET else _of_server(interrupt, question)


def interrupt_of_pending(confirmation: Confirmation) -> dict[str, Any]:
    """Return the interrupt for a pending approval of a session."""
    interrupt = _interrupt(
        confirmation.confirmation_id,
        tool_call_id=confirmation.tool_call_id if confirmation.agent_name is None else None,
        tool_name=confirmation.tool_name,
        arguments=confirmation.arguments,
        expires_at=confirmation.expires_at,
        agent_name=confirmation.agent_name,
        asked_because=confirmation.reason,
    )
    return interrupt if confirmation.kind == "call" else _of_server(interrupt, confirmation)


def _of_server(
    interrupt: Mapping[str, Any], question: ToolConfirmationRequired | Confirmation
) -> dict[str, Any]:
    """Return the interrupt for a server's question: values for a form, or an address to open."""
    about = {"server": question.server, "url": question.url or None}
    more = {key: value for key, value in about.items() if value is not None}
    return {
        **interrupt,
        "reason": "input",
        "message": question.message,
        "responseSchema": question.schema or _NO_VALUES,
        "metadata": {**interrupt["metadata"], **more},
    }


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
