"""Shows calls and their results as all protocols do. Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from chat.approvals.confirmation import Confirmation
from chat.stream.agent_events import AgentToolResult
from chat.stream.encoding import ascii_json
from chat.stream.events import (
    ToolResultReceived,
)
from models_app.call_arguments import INVALID_JSON
from sessions_app.messages import ToolCall
from tools_app.toolset import AGENT_TOOL

FAILED = "Error: "
"""Begins the result of a call that failed, as the model gets it."""


def shown_call(call: ToolCall) -> ToolCall:
    """Return the displayed call; a call of an agent has its name."""
    agent, instruction = call.arguments.get("agent"), call.arguments.get("instruction")
    if call.name != AGENT_TOOL or not isinstance(agent, str):
        return call
    arguments = agent_arguments(instruction if isinstance(instruction, str) else "")
    return msgspec.structs.replace(call, name=agent, arguments=arguments)


def agent_arguments(instruction: str) -> Mapping[str, Any]:
    """Return the displayed arguments of a call of an agent."""
    return {"instruction": instruction}


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON, or the model's text if that is not JSON."""
    if arguments.keys() == {INVALID_JSON}:
        return str(arguments[INVALID_JSON])
    # Through ASCII, which mends halves of characters; then as people read it.
    return json.dumps(json.loads(ascii_json(arguments)), ensure_ascii=False, separators=(",", ":"))


def result_text(result: ToolResultReceived | AgentToolResult) -> str:
    """Return the result of a call as text, as in the session."""
    if result.result is None:
        return f"{FAILED}{result.error_message or ''}"
    return result.result


def questions_of(pending: Iterable[Confirmation]) -> Mapping[str, str]:
    """Return the pending approvals of a session's own calls (not agents'), by call id."""
    return {
        asked.tool_call_id: asked.confirmation_id
        for asked in pending
        if asked.agent_name is None and asked.kind == "call"
    }
