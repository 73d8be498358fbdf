"""Formats a tool call as one line, for the question whether it may run. Pure."""

import json

from chat.stream.agent_events import AgentToolCall
from chat.stream.events import (
    ToolCallStarted,
    ToolConfirmationRequired,
)
from mochi_project.screen_text import unseen_escaped

Call = ToolCallStarted | AgentToolCall | ToolConfirmationRequired


def shown_call(call: Call) -> str:
    """Return a call as ``days_between(first="2026-03-01", last="2026-12-24")``, whole."""
    arguments = ", ".join(
        f"{shown_text(name)}={shown_text(json.dumps(value, ensure_ascii=False))}"
        for name, value in call.arguments.items()
    )
    shown = f"{shown_text(call.tool_name)}({arguments})"
    agent = getattr(call, "agent_name", None)
    return f"{shown_text(agent)}: {shown}" if isinstance(agent, str) else shown


def shown_text(text: str) -> str:
    """Return a text on one line, with escapes for what is not seen."""
    return unseen_escaped(text)
