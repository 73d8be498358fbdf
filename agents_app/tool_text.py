"""Describes the ``agent`` tool to models. Pure."""

from collections.abc import Sequence

from agents_app.agent import AgentDefinition
from sessions_app.messages import ToolSpec
from tools_app.toolset import AGENT_TOOL, Tool

_AGENT = "The name of the agent to invoke."
_INSTRUCTION = "A clear, detailed instruction."
_SESSION_ID = "Optional session ID to continue a previous agent conversation."


def agent_tool(agents: Sequence[AgentDefinition]) -> Tool:
    """Return the tool through which a model calls these agents, which are valid.

    An agent runs without approval; its tools may need one.
    """
    return Tool(
        spec=ToolSpec(
            name=AGENT_TOOL,
            description=describe_agents(agents),
            parameters={
                "type": "object",
                "properties": {
                    "agent": {
                        "type": "string",
                        "enum": [agent.name for agent in agents],
                        "description": _AGENT,
                    },
                    "instruction": {"type": "string", "description": _INSTRUCTION},
                    "session_id": {"type": "string", "description": _SESSION_ID},
                },
                "required": ["agent", "instruction"],
                "additionalProperties": False,
            },
        ),
        parameters={
            "agent": {"type": "str", "description": _AGENT},
            "instruction": {"type": "str", "description": _INSTRUCTION},
            "session_id": {"type": "str", "description": _SESSION_ID},
        },
        destructive=False,
        delegated=True,
    )


def describe_agents(agents: Sequence[AgentDefinition]) -> str:
    """Return the docstring of the tool, which lists the agents with what they are for."""
    listed = "\n".join(f"  - {agent.name}: {agent.description}" for agent in agents)
    return f"""\
Delegate a task to a specialised agent.

Available agents:
{listed}

Args:
    agent (str): {_AGENT}
    instruction (str): {_INSTRUCTION}
    session_id (str): {_SESSION_ID}

Returns:
    str: The agent's response including its Session ID."""
