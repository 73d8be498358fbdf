"""Warnings about agents and tools that a session enables and that are not there."""

import asyncio

import pytest

from agents_app import missing_names
from agents_app.catalogue import AgentCatalogue
from agents_app.errors import AgentInvalid
from agents_app.missing_names import missing_agents, missing_tools
from sessions_app.session import AgentSettings, ToolSettings
from tests.unit.agents_app.conftest import Folders
from tools_app.toolset import InvalidTool, ToolListing, ToolSelection


class SlowTools:
    """An MCP server that takes long to start."""

    async def listing(self, selection: ToolSelection | None = None) -> ToolListing:
        await asyncio.Event().wait()
        return ToolListing()


async def test_an_agent_that_is_not_there_is_told_with_the_one_that_was_meant(
    catalogue: AgentCatalogue, folders: Folders
) -> None:
    folders.write_agent("coder")
    settings = AgentSettings(enabled_agents=("coder", "codre", "../coder"))
    assert await missing_agents(settings, catalogue) == [
        "no agent is called `codre`; did you mean coder?",
        "no agent is called `../coder`; did you mean coder?",
    ]


async def test_an_agent_that_is_there_and_broken_is_refused(
    catalogue: AgentCatalogue, folders: Folders
) -> None:
    folders.write_agent("coder", skill=None)
    with pytest.raises(AgentInvalid):
        await missing_agents(AgentSettings(enabled_agents=("coder",)), catalogue)


class NoTools:
    """A folder without the tools that a session names."""

    async def listing(self, selection: ToolSelection | None = None) -> ToolListing:
        return ToolListing(invalid=[InvalidTool(file="broken.py", name="broken", reason="a typo")])


async def test_of_many_missing_names_a_few_are_told_and_fewer_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []
    monkeypatch.setattr(missing_names, "suggestion", lambda name, _: compared.append(name) or "")
    settings = ToolSettings(tools=("broken", *(f"t{number}" for number in range(1000))))
    warnings = await missing_tools(settings, NoTools())  # type: ignore[arg-type]
    assert warnings[:2] == [
        "the tool `broken` can't be offered: a typo",
        "no tool is called `t0`",
    ]
    assert warnings[-1] == "981 more tools are not there"
    assert len(warnings) == 21
    assert len(compared) == missing_names.MOST_SUGGESTED - 1


async def test_tools_that_may_still_come_are_no_reason_to_wait_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(missing_names, "LISTING_SECONDS", 0.01)
    settings = ToolSettings(tools=("time__now",))
    assert await missing_tools(settings, SlowTools()) == ()  # type: ignore[arg-type]
