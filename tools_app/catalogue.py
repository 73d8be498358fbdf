"""Combines all toolsets into one, with unique names; records calls, and keeps their files."""

import asyncio
import time
from collections.abc import Sequence

from mochi_project.principal import principal
from sessions_app.ids_and_clock import utc_now
from tools_app.errors import CANCELLED, ToolNotFound
from tools_app.execution_log import ExecutionLog
from tools_app.result_files import ResultFiles
from tools_app.storage.call_log import ToolExecution
from tools_app.toolset import (
    InvalidTool,
    Tool,
    ToolInvocation,
    ToolListing,
    ToolResult,
    ToolSelection,
    Toolset,
)


class ToolCatalogue:
    """Combines toolsets, records the calls, and keeps the images and files that they return.

    The first toolset wins a name; a later tool of that name is listed as invalid, so that no MCP
    server can replace a local function. Built-in tools join no group of people's own.
    """

    def __init__(self, toolsets: Sequence[Toolset], log: ExecutionLog, files: ResultFiles) -> None:
        self._toolsets = toolsets
        self._log = log
        self._files = files

    async def listing(self, selection: ToolSelection | None = None) -> ToolListing:
        """Return the tools of all toolsets, listed concurrently."""
        return _merged(await asyncio.gather(*(s.listing(selection) for s in self._toolsets)))

    async def find(self, name: str) -> Tool:
        """Return one tool.

        Raises:
            ToolNotFound: There is no tool of this name.
        """
        listing = await self.listing(ToolSelection(names=[name]))
        try:
            return listing.tools[name]
        except KeyError:
            raise ToolNotFound(name) from None

    async def call_tool(self, invocation: ToolInvocation) -> ToolResult:
        """Call a tool of the toolset that has it, record the call, and keep what it returned.

        Raises:
            ToolNotFound: No toolset has a tool of this name.
        """
        for toolset in self._toolsets:
            try:
                return await self._recorded(toolset, invocation)
            except ToolNotFound:
                continue
        raise ToolNotFound(invocation.name)

    async def _recorded(self, toolset: Toolset, invocation: ToolInvocation) -> ToolResult:
        started_at, started = utc_now(), time.perf_counter()
        result: ToolResult | None = ToolResult(
            success=False, error_message="The call was cancelled.", error_code=CANCELLED
        )
        try:
            result = await toolset.call_tool(invocation)
            # Only a session's model can read on in a text that is kept.
            name = invocation.name if invocation.session_id else ""
            result = await self._files.kept(result, tool_name=name)
        except ToolNotFound:
            result = None  # nothing ran
            raise
        finally:
            if result is not None:
                self._log.record(
                    ToolExecution(
                        tool_name=invocation.name,
                        session_id=invocation.session_id,
                        tool_call_id=invocation.tool_call_id,
                        server=result.server,
                        owner=principal().owner,
                        started_at=started_at,
                        duration_ms=round((time.perf_counter() - started) * 1000, 3),
                        success=result.success,
                        error_code=result.error_code,
                        error_message=result.error_message,
                    )
                )
        return result


def _merged(listings: Sequence[ToolListing]) -> ToolListing:
    tools: dict[str, Tool] = {}
    groups: dict[str, list[str]] = {}
    invalid: list[InvalidTool] = []
    for listing in listings:
        invalid += listing.invalid
        refused = tools.keys() & listing.tools.keys()
        invalid += [_taken(listing.tools[name]) for name in sorted(refused)]
        tools |= {name: tool for name, tool in listing.tools.items() if name not in refused}
        for group, names in listing.groups.items():
            if group in groups and any(listing.tools[name].is_built_in for name in names):
                continue  # or sessions that chose people's group would be offered these, too
            known = groups.setdefault(group, [])
            known += [name for name in names if name not in refused and name not in known]
    groups = {group: names for group, names in groups.items() if names}
    return ToolListing(tools=tools, groups=groups, invalid=invalid)


def _taken(tool: Tool) -> InvalidTool:
    return InvalidTool(
        name=tool.name,
        file=tool.file or (f"mcp.json: {tool.server}" if tool.server else "built-in"),
        reason="Another tool has this name already; rename one of the two.",
    )
