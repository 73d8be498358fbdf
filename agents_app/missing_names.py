"""Warns about tools, groups and agents that a session enables but that do not exist."""

import asyncio
from collections.abc import Sequence

from agents_app.catalogue import AgentCatalogue
from sessions_app.session import AgentSettings, ToolSettings
from sessions_app.suggestions import suggestion
from tools_app.toolset import ToolListing, ToolSelection, Toolset

LISTING_SECONDS = 2.0
"""The wait for tools; an MCP server that starts may have them yet, and gets no warning."""


async def missing_tools(settings: ToolSettings, toolset: Toolset) -> Sequence[str]:
    """Return a warning for each tool that is not there, and for the group."""
    if not settings.tools and settings.tool_group is None:
        return ()
    selection = ToolSelection(names=tuple(settings.tools), group=settings.tool_group)
    try:
        async with asyncio.timeout(LISTING_SECONDS):
            listing = await toolset.listing(selection)
    except TimeoutError:
        return ()
    warnings = [_no_tool(name, listing) for name in settings.tools if name not in listing.tools]
    group = settings.tool_group
    if group is not None and group not in listing.groups:
        hint = suggestion(group, listing.groups.keys())
        warnings.append(f"no group of tools is called `{group}`{hint}")
    return list(dict.fromkeys(warnings))


async def missing_agents(settings: AgentSettings, agents: AgentCatalogue) -> Sequence[str]:
    """Return a warning for each agent that is not there.

    Raises:
        AgentInvalid: One is there, and something is wrong with it.
    """
    there = await agents.names() if settings.enabled_agents else ()
    missing = dict.fromkeys(name for name in settings.enabled_agents if name not in there)
    for name in dict.fromkeys(settings.enabled_agents):
        if name in there:
            await agents.usable(name)
    return [f"no agent is called `{name}`{suggestion(name, there)}" for name in missing]


def _no_tool(name: str, listing: ToolListing) -> str:
    for entry in listing.invalid:
        if entry.name == name:
            return f"the tool `{name}` can't be offered: {entry.reason}"
    return f"no tool is called `{name}`{suggestion(name, listing.tools.keys())}"
