"""The ``agent`` tool as models see it."""

from agents_app.agent import AgentDefinition
from agents_app.tool_text import agent_tool

CODER = AgentDefinition(name="coder", description="A coding agent...", valid=True)
BUILDER = AgentDefinition(name="agent_builder", description="An agent that...", valid=True)
BROKEN = AgentDefinition(name="broken", description="x", error_message="no")


def test_the_description_is_the_one_of_the_specification() -> None:
    assert (
        agent_tool([CODER, BROKEN, BUILDER]).spec.description
        == """\
Delegate a task to a specialised agent.

Available agents:
  - coder: A coding agent...
  - agent_builder: An agent that...

Args:
    agent (str): The name of the agent to invoke.
    instruction (str): A clear, detailed instruction.
    session_id (str): Optional session ID to continue a previous agent conversation.

Returns:
    str: The agent's response including its Session ID."""
    )


def test_the_schema_allows_the_usable_agents_and_nothing_else() -> None:
    schema = agent_tool([CODER, BROKEN, BUILDER]).spec.parameters

    assert schema["properties"]["agent"]["enum"] == ["coder", "agent_builder"]
    assert schema["required"] == ["agent", "instruction"]
    assert schema["properties"].keys() == {"agent", "instruction", "session_id"}
    assert schema["additionalProperties"] is False


def test_nothing_about_it_is_destructive() -> None:
    tool = agent_tool([CODER])

    assert tool.name == "agent"
    assert not tool.destructive
