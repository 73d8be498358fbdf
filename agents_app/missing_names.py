"""Warns about tools, groups and agents that a session enables but that do not exist."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from agents_app.catalogue import AgentCatalogue
from sessions_app.enabled_names import EnabledNames
from sessions_app.session import AgentSettings, ToolSettings
from sessions_app.suggestions import suggestion
from tools_app.toolset import ToolSelection, Toolset

LISTING_SECONDS = 2.0
"""The wait for tools; an MCP server that starts may have them yet, and gets no warning."""
MOST_NAMED = 20
"""So many missing names are listed, the others are counted."""
MOST_SUGGESTED = 5


class MissingNames(EnabledNames):
    """Knows the tools and the agents that there are.

    Args:
        toolset: The tools.
        agents: The agents.
    """

    def __init__(self, toolset: Toolset, agents: AgentCatalogue) -> None:
        self._toolset = toolset
        self._agents = agents

    async def missing(
        self, *, tools: ToolSettings | None = None, agents: AgentSettings | None = None
    ) -> Sequence[str]:
        """Return a warning for each enabled name without its tool, group or agent.

        Raises:
            AgentInvalid: An agent is there, and something is wrong with it.
        """
        warnings: list[str] = []
        if agents is not None:
            warnings += await missing_agents(agents, self._agents)
        if tools is not None:
            warnings += await missing_tools(tools, self._toolset)
        return warnings


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
    missing = [name for name in dict.fromkeys(settings.tools) if name not in listing.tools]
    invalid = {
        entry.name: f"the tool `{entry.name}` can't be offered: {entry.reason}"
        for entry in listing.invalid
    }
    warnings = await asyncio.to_thread(
        _warnings, "tool", missing, listing.tools.keys(), reasons=invalid
    )
    group = settings.tool_group
    if group is not None and group not in listing.groups:
        hint = suggestion(group, listing.groups.keys())
        warnings.append(f"no group of tools is called `{group}`{hint}")
    return warnings


async def missing_agents(settings: AgentSettings, agents: AgentCatalogue) -> Sequence[str]:
    """Return a warning for each agent that is not there.

    Raises:
        AgentInvalid: One is there, and something is wrong with it.
    """
    there = await agents.names() if settings.enabled_agents else ()
    missing = []
    for name in dict.fromkeys(settings.enabled_agents):
        if name in there:
            await agents.usable(name)
        else:
            missing.append(name)
    return await asyncio.to_thread(_warnings, "agent", missing, there)


def _warnings(
    kind: str,
    missing: Sequence[str],
    there: Collection[str],
    *,
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Return a warning for each of the first names, and how many more are missing.

    Args:
        kind: What is missing, in one word.
        missing: The names of those that are not there.
        there: The names of those that are: a few names are compared with all of them.
        reasons: The warning of a name, where it is known what is wrong.
    """
    warnings = []
    for index, name in enumerate(missing[:MOST_NAMED]):
        hint = suggestion(name, there) if index < MOST_SUGGESTED and name not in reasons else ""
        warnings.append(reasons.get(name) or f"no {kind} is called `{name}`{hint}")
    if len(missing) > MOST_NAMED:
        warnings.append(f"{len(missing) - MOST_NAMED} more {kind}s are not there")
    return warnings
