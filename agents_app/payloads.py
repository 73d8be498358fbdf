"""Converts agents and their sessions to JSON-compatible values for routes and commands."""

from collections.abc import Mapping
from typing import Any

import msgspec

from agents_app.agent import AgentDefinition
from agents_app.sessions import agent_of
from sessions_app.format.to_json import many_sessions, session_detail
from sessions_app.list_query import SessionPage
from sessions_app.session import Session
from tools_app.payloads import tool_payload


def agents_payload(agents: Mapping[str, AgentDefinition]) -> dict[str, Any]:
    """Return all agents by name."""
    return {"agents": {name: agent_overview(agent) for name, agent in agents.items()}}


def agent_overview(agent: AgentDefinition) -> dict[str, Any]:
    """Return an agent as it stands in a list."""
    return {
        "name": agent.name,
        "description": agent.description,
        "model": agent.model,
        "valid": agent.valid,
        "error_message": agent.error_message,
        "tool_count": len(agent.tools),
        "tools": list(agent.tools),
    }


def agent_detail(agent: AgentDefinition) -> dict[str, Any]:
    """Return an agent with its system prompt and what is known of its tools."""
    return {
        **agent_overview(agent),
        "system_prompt": agent.system_prompt,
        "tool_details": {name: tool_payload(tool) for name, tool in agent.tools.items()},
        "invalid_tools": [msgspec.to_builtins(entry) for entry in agent.invalid_tools],
    }


def chats_payload(page: SessionPage) -> dict[str, Any]:
    """Return the sessions of agents, each with the agent's name."""
    return {
        "chats": many_sessions(page.sessions, also=lambda one: {"agent_name": agent_of(one)}),
        "unreadable": [{"file": item.file, "reason": item.reason} for item in page.unreadable],
        "complete": page.complete,
    }


def chat_detail(session: Session) -> dict[str, Any]:
    """Return a session of an agent as a whole, messages included."""
    return {**session_detail(session), "agent_name": agent_of(session.metadata)}
