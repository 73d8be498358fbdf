"""The agents that ``init`` writes, with their tools called where tools run."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agents_app.catalogue import AgentCatalogue
from mochi_project.management.example_data import copy_examples
from sessions_app.store.file_records import FileRecords
from tools_app.errors import EXECUTION_FAILED, INVALID_ARGUMENTS
from tools_app.hosts.fork_server_client import ForkServerClient
from tools_app.storage.generations import Generations
from tools_app.toolset import ToolInvocation, ToolResult

TOOLS = {
    "read_file": False,
    "write_file": True,
    "insert_replace_text": True,
    "list_dir": False,
    "delete_rename_file": True,
    "run_cli_command": True,
}


class Called:
    """Calls tools of one agent."""

    def __init__(self, catalogue: AgentCatalogue, name: str) -> None:
        self._catalogue = catalogue
        self._name = name

    async def result(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        await self._catalogue.usable(self._name)
        invocation = ToolInvocation(name=tool, arguments=arguments)
        return await self._catalogue.toolset(self._name).call_tool(invocation)

    async def __call__(self, tool: str, **arguments: Any) -> str:
        result = await self.result(tool, arguments)
        assert result.success, result
        return result.result or ""

    async def refused(self, tool: str, **arguments: Any) -> str:
        result = await self.result(tool, arguments)
        assert not result.success, result
        assert result.error_code in {EXECUTION_FAILED, INVALID_ARGUMENTS}
        return result.error_message or ""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    copy_examples(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
async def catalogue(
    data: Path, tmp_path: Path, forked_tools: None
) -> AsyncIterator[AgentCatalogue]:
    fork_server = ForkServerClient(
        data, added=lambda: {"MOCHI_WORKSPACE": str(tmp_path / "elsewhere")}
    )
    generations = Generations(FileRecords(data / ".mochi"), "agents.generation")
    catalogue = AgentCatalogue(
        data / "agents", fork_server=fork_server, generations=generations, timeout_seconds=20
    )
    yield catalogue
    await catalogue.aclose()
    await fork_server.aclose()


@pytest.fixture
def coder(catalogue: AgentCatalogue) -> Called:
    return Called(catalogue, "coder")


@pytest.fixture
def builder(catalogue: AgentCatalogue) -> Called:
    return Called(catalogue, "agent_builder")


async def test_both_work_and_say_which_tools_change_something(catalogue) -> None:
    agents = await catalogue.list()

    assert list(agents) == ["agent_builder", "coder"]
    for agent in agents.values():
        assert agent.valid, agent.error_message
        assert not agent.invalid_tools
        assert agent.description
        assert agent.model is None
        assert {name: tool.destructive for name, tool in agent.tools.items()} == TOOLS
        for tool in agent.tools.values():
            assert all(known["description"] for known in tool.parameters.values()), tool.name


async def test_the_coder_works_in_the_configured_workspace(coder, tmp_path: Path) -> None:
    await coder("write_file", path="src/hello.py", content="print('hello')\n")
    await coder("insert_replace_text", path="src/hello.py", old_text="hello", new_text="bye")
    assert await coder("run_cli_command", command="python3 src/hello.py") == "exit code 0\nbye"
    assert await coder("read_file", path="src/hello.py") == "print('bye')\n"
    assert await coder("list_dir") == "src/"

    await coder("delete_rename_file", path="src/hello.py", new_path="bye.py")

    elsewhere = await asyncio.to_thread(lambda: sorted((tmp_path / "elsewhere").iterdir()))
    assert [path.name for path in elsewhere] == ["bye.py", "src"]


async def test_the_coder_stays_there(coder, data: Path) -> None:
    for path in ("../data/mcp.json.example", str(data / "mcp.json.example"), "/etc/hostname"):
        assert await coder.refused("read_file", path=path)
        assert await coder.refused("write_file", path=path, content="x")
    await coder("run_cli_command", command=f"ln -s {data} out")
    assert "leads out" in await coder.refused("read_file", path="out/mcp.json.example")


async def test_a_command_that_takes_too_long_is_told(coder) -> None:
    message = await coder.refused("run_cli_command", command="sleep 60", timeout_seconds=0.2)

    assert "took longer than 0.2 seconds" in message
    assert await coder.refused("run_cli_command", command="true", timeout_seconds=10_000)


async def test_the_builder_builds_an_agent_that_works(builder, catalogue) -> None:
    skill = "---\ndescription: Greets.\n---\nGreet."
    module = 'def greet(name: str) -> str:\n    """Greet."""\n    return f"Hello {name}!"\n'
    init = 'from .greeter import greet\n\n__all__ = ["greet"]\n'
    await builder("write_file", path="greeter/SKILL.md", content=skill)
    await builder("write_file", path="greeter/greeter.py", content=module)
    await builder("write_file", path="greeter/__init__.py", content=init)
    checked = await builder("run_cli_command", command="python3 -m py_compile greeter/*.py")
    assert checked == "exit code 0"

    assert await Called(catalogue, "greeter")("greet", name="you") == "Hello you!"


async def test_the_builder_sees_agents_and_not_what_they_said(builder, data: Path) -> None:
    chats = data / "agents" / "agent_chats"
    await asyncio.to_thread(chats.mkdir)

    assert await builder("list_dir") == "agent_builder/\ncoder/"
    assert "Read `coder/` first" in await builder("read_file", path="agent_builder/SKILL.md")
    assert await builder.refused("list_dir", path="agent_chats")
    assert await builder.refused("read_file", path="../mcp.json.example")
