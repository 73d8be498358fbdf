"""Toolsets as one: whose tool has a name, and who is in a group."""

import pytest

from tests.unit.tools_app.kept_files import keeper
from tools_app.catalogue import ToolCatalogue
from tools_app.errors import ToolNotFound
from tools_app.execution_log import ExecutionLog
from tools_app.recall.arguments import SPECS
from tools_app.recall.toolset import RecallTools
from tools_app.storage.files.call_log import FileCallLog
from tools_app.toolset import Tool, ToolInvocation, ToolListing, ToolResult

# The log of a test is written in its own loop.
pytestmark = pytest.mark.allow_blocking


class Own:
    """A toolset of a person, with a function and a group of the names of recall."""

    tool = Tool(
        spec=SPECS["read_conversation"],
        groups=("recall",),
        file="own.py",
    )

    async def listing(self, selection=None):
        return ToolListing(tools={self.tool.name: self.tool}, groups={"recall": [self.tool.name]})

    async def call_tool(self, invocation):
        if invocation.name != self.tool.name:
            raise ToolNotFound(invocation.name)
        return ToolResult(success=True, result="own")


@pytest.fixture
def tools(manager):
    return RecallTools(manager.get, None)


async def test_a_persons_function_and_group_go_first(tools, tmp_path):
    log = ExecutionLog(FileCallLog(tmp_path / "executions.jsonl"))
    catalogue = ToolCatalogue([Own(), tools], log, keeper())
    listing = await catalogue.listing()
    assert listing.groups == {"recall": ["read_conversation"]}
    assert listing.tools["read_conversation"].file == "own.py"
    assert "expand_summary" in listing.tools
    assert ("read_conversation", "built-in") in {
        (entry.name, entry.file) for entry in listing.invalid
    }
    result = await catalogue.call_tool(ToolInvocation(name="read_conversation", arguments={}))
    assert result.result == "own"
    await log.aclose()


async def test_a_server_that_is_down_keeps_its_group(tools, tmp_path):
    class Down(Own):
        async def listing(self, selection=None):
            return ToolListing(groups={"recall": []})

    log = ExecutionLog(FileCallLog(tmp_path / "executions.jsonl"))
    listing = await ToolCatalogue([Down(), tools], log, keeper()).listing()
    assert listing.groups == {}
    assert "read_conversation" in listing.tools
    await log.aclose()
