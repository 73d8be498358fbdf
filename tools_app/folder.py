"""Implements a toolset of the functions in one folder, which run in processes of their own."""

import asyncio
from math import inf
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from mochi_project.principal import principal
from tools_app.errors import ToolNotFound
from tools_app.folder_snapshots import FolderSnapshot, take_snapshot
from tools_app.gate import Gate, always_open
from tools_app.hosts.pool import HostPool
from tools_app.storage.generations import Generations
from tools_app.toolset import (
    AGENT_TOOL,
    TOOL_NAME,
    InvalidTool,
    Tool,
    ToolInvocation,
    ToolListing,
    ToolResult,
    ToolSelection,
)

RETRY_SECONDS = 5.0
"""The time after which a folder that failed to load is loaded again."""

NO_TOOLS = ToolListing()


class _Discovery:
    """A discovery that runs or ran, and the numbered snapshot of the folder from before it."""

    task: asyncio.Task[ToolListing]

    def __init__(self, number: int, snapshot: FolderSnapshot) -> None:
        self.number = number
        self.snapshot = snapshot
        self.retry_at = float("inf")  # on the event loop's clock


class FolderTools:
    """Lists and calls the functions of a folder, and follows its changes.

    Each listing compares names, times and sizes of the folder's modules, and the generation that
    all processes share, with those of the last discovery. After a change the running processes are
    retired and a new one loads the folder; concurrent callers share that discovery. No code of the
    folder runs before the first call.

    Args:
        folder: Where the modules are. A folder that does not exist has none, and needs no process.
        hosts: The processes of this folder, which are ended with this toolset.
        generations: The generation of the folder, which a reload in any process changes.
        timeout_seconds: How long a call may run, even if a module declares more.
        gate: Returns why nothing of the folder may be executed; None when it may.
    """

    def __init__(
        self,
        folder: Path,
        hosts: HostPool,
        generations: Generations,
        *,
        timeout_seconds: float,
        gate: Gate = always_open,
    ) -> None:
        self.folder = folder
        self._hosts = hosts
        self._generations = generations
        self._number = 0
        self._timeout_seconds = timeout_seconds
        self._gate = gate
        self._discovery: _Discovery | None = None
        self._running: set[asyncio.Task[ToolListing]] = set()

    async def listing(self, selection: ToolSelection | None = None) -> ToolListing:
        """Return the tools for the caller's owner; none for a selection without names and group."""
        if selection is not None and not selection.names and selection.group is None:
            return NO_TOOLS
        self._number = number = self._number + 1
        snapshot = await asyncio.to_thread(take_snapshot, self.folder, self._generations)
        if snapshot.files is None or snapshot.fault is not None:
            self._forget()
            return NO_TOOLS if snapshot.fault is None else self._unreadable(snapshot.fault)
        if (reason := await self._gate()) is not None:
            self._forget()
            return self._shut(reason) if snapshot.files else NO_TOOLS
        discovery = self._discovery
        if discovery is None or not self._is_current(discovery, number, snapshot):
            discovery = self._discover(number, snapshot)
        # A cancelled caller must not cancel the discovery of the others.
        return (await asyncio.shield(discovery.task)).of_owner(principal().owner)

    async def call_tool(self, invocation: ToolInvocation) -> ToolResult:
        """Call a function in a tool process; failures are results.

        Raises:
            ToolNotFound: The folder has no such tool.
        """
        tool = (await self.listing()).tools.get(invocation.name)
        if tool is None:
            raise ToolNotFound(invocation.name)
        return await self._hosts.call(
            invocation.name,
            invocation.arguments,
            timeout_seconds=min(tool.timeout_seconds or inf, self._timeout_seconds),
            report=invocation.report,
        )

    async def reload(self) -> ToolListing:
        """Make all processes of the server load the folder again.

        Running calls are not affected.

        Raises:
            StorageFull: The disk is full; nothing was reloaded.
        """
        await asyncio.to_thread(self._generations.bump)
        return await self.listing()

    async def aclose(self) -> None:
        """End the folder's processes; calls that run fail, and discoveries find nothing."""
        await self._hosts.aclose()
        if self._running:
            await asyncio.wait(self._running)

    def _is_current(self, discovery: _Discovery, number: int, snapshot: FolderSnapshot) -> bool:
        if asyncio.get_running_loop().time() >= discovery.retry_at:
            return False
        # What a snapshot from before the discovery shows, the discovery has seen.
        return number < discovery.number or snapshot == discovery.snapshot

    def _discover(self, number: int, snapshot: FolderSnapshot) -> _Discovery:
        self._forget()
        self._discovery = discovery = _Discovery(number, snapshot)
        discovery.task = asyncio.create_task(self._read(discovery))
        self._running.add(discovery.task)
        discovery.task.add_done_callback(self._running.discard)
        return discovery

    async def _read(self, discovery: _Discovery) -> ToolListing:
        try:
            listing = _checked(await self._hosts.discover(), self._timeout_seconds)
        except BaseException:
            if self._discovery is discovery:
                self._discovery = None
            raise
        if any(not entry.file for entry in listing.invalid):  # no process could load the folder
            discovery.retry_at = asyncio.get_running_loop().time() + RETRY_SECONDS
        return listing

    def _forget(self) -> None:
        if self._discovery is not None:
            self._discovery = None
            self._hosts.retire()

    def _unreadable(self, fault: str) -> ToolListing:
        return self._shut(f"The folder can't be read: {fault}.")

    def _shut(self, reason: str) -> ToolListing:
        return ToolListing(invalid=[InvalidTool(name=self.folder.name, file="", reason=reason)])


def _checked(reported: ToolListing, longest: float) -> ToolListing:
    """Validate what a tool process reports: it has run untrusted modules."""
    tools: dict[str, Tool] = {}
    invalid = list(reported.invalid)
    for name, tool in reported.tools.items():
        is_object = tool.spec.parameters.get("type") == "object"
        is_name = TOOL_NAME.fullmatch(name) and name != AGENT_TOOL
        if not is_name or tool.name != name or not is_object:
            reason = "Its process sent an invalid description of the tool."
            invalid.append(InvalidTool(name=name, file=_file(tool) or "?", reason=reason))
            continue
        if (tool.timeout_seconds or 0) > longest:
            reason = (
                f"MOCHI_TOOL_TIMEOUT_SECONDS is less than its __timeout__: it gets {longest:g}."
            )
            invalid.append(InvalidTool(name=name, file=_file(tool) or "?", reason=reason))
        tools[name] = replace(
            tool, file=_file(tool), server=None, digest=None, read_only=False, delegated=False
        )
    groups = {
        group: [name for name in names if name in tools] for group, names in reported.groups.items()
    }
    return ToolListing(tools=tools, groups=groups, invalid=invalid)


def _file(tool: Tool) -> str | None:
    """Return the file as a path within the folder; None for a path that leads out of it."""
    path = PurePosixPath(tool.file or "/")
    return None if path.is_absolute() or ".." in path.parts else str(path)
