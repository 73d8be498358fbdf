"""Recall as built-in tools: listed beside people's own, and bounded by the window."""

import pytest

from tests.unit.conftest import SESSION_ID
from tests.unit.tools_app.kept_files import keeper
from tools_app.catalogue import ToolCatalogue
from tools_app.errors import ToolNotFound
from tools_app.execution_log import ExecutionLog
from tools_app.recall.arguments import SPECS
from tools_app.recall.service import Recall
from tools_app.recall.toolset import RecallTools
from tools_app.storage.files.call_log import FileCallLog
from tools_app.toolset import Tool, ToolInvocation, ToolListing, ToolResult

# The sessions of a test are written in its own loop.
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
    return RecallTools(Recall(manager.get, None))


async def test_without_a_search_its_tool_is_listed_with_the_reason(tools):
    listing = await tools.listing()
    assert listing.groups == {"recall": ["read_conversation", "expand_summary"]}
    assert not any(tool.destructive or tool.queue for tool in listing.tools.values())
    [invalid] = listing.invalid
    assert (invalid.name, invalid.reason) == (
        "search_conversations",
        "This server runs without the app that searches.",
    )


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


@pytest.mark.parametrize("tokens", [400, 2000])
async def test_a_result_keeps_to_its_tokens(tools, manager, make_session, tokens):
    manager.keep_new(make_session(*["word " * 500] * 20))
    call = ToolInvocation(
        name="read_conversation",
        arguments={},
        session_id=SESSION_ID,
        result_tokens=tokens,
    )
    result = await tools.call_tool(call)
    assert tokens * 2 < len(result.result.encode()) <= tokens * 3


async def test_failures_are_results_and_other_tools_are_not_found(tools):
    call = ToolInvocation(name="read_conversation", arguments={"session_id": "0123456789"})
    result = await tools.call_tool(call)
    assert (result.success, result.error_code) == (False, "SESSION_NOT_FOUND")
    with pytest.raises(ToolNotFound):
        await tools.call_tool(ToolInvocation(name="other", arguments={}))
