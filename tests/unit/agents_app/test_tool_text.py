"""The ``agent`` tool as models see it."""

from collections.abc import Sequence

from agents_app.agent import AgentDefinition
from agents_app.delegate import AgentDelegate
from agents_app.tool_text import agent_tool

CODER = AgentDefinition(name="coder", description="A coding agent...", valid=True)
BROKEN = AgentDefinition(name="broken", description="x", error_message="no")
BUILDER = AgentDefinition(name="agent_builder", description="An agent that...", valid=True)


def test_the_description_is_the_one_of_the_specification() -> None:
    assert (
        agent_tool([CODER, BUILDER]).spec.description
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


def test_the_schema_allows_the_agents_and_nothing_else() -> None:
    schema = agent_tool([CODER, BUILDER]).spec.parameters

    assert schema["properties"]["agent"]["enum"] == ["coder", "agent_builder"]
    assert schema["required"] == ["agent", "instruction"]
    assert schema["properties"].keys() == {"agent", "instruction", "session_id"}
    assert schema["additionalProperties"] is False


def test_nothing_about_it_is_destructive() -> None:
    tool = agent_tool([CODER])

    assert tool.name == "agent"
    assert not tool.destructive


async def test_only_valid_agents_are_offered() -> None:
    class Agents:
        async def list(self, names: Sequence[str]) -> dict[str, AgentDefinition]:
            return {agent.name: agent for agent in (CODER, BROKEN) if agent.name in names}

    others = (
        *("sessions", "claimer", "preparer", "choice", "load_phases", "recorded"),
        "max_iterations",
    )
    delegate = AgentDelegate(agents=Agents(), **dict.fromkeys(others))

    tools = (await delegate.listing(["coder", "broken", "gone"])).tools

    assert tools["agent"].spec.parameters["properties"]["agent"]["enum"] == ["coder"]
    assert not (await delegate.listing(["broken"])).tools
