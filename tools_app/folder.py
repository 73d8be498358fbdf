"""The tools of one folder, which run in processes of their own, as a toolset."""

import asyncio
from pathlib import Path, PurePosixPath

from tools_app.errors import ToolNotFound
from tools_app.folder_snapshots import FolderLooks, Look
from tools_app.functions.checks import NAME
from tools_app.gate import Gate, always_open
from tools_app.hosts.pool import ToolHosts
from tools_app.toolset import (
    AGENT_TOOL,
    InvalidTool,
    Tool,
    ToolInvocation,
    ToolListing,
    ToolResult,
    ToolSelection,
)

RETRY_SECONDS = 5.0
"""When a folder that no process could load is tried again."""

NO_TOOLS = ToolListing()


class _Discovery:
    """A discovery that runs or ran, and how the folder looked before it."""

    task: asyncio.Task[ToolListing]

    def __init__(self, look: Look) -> None:
        self.look = look
        self.retry_at = float("inf")  # on the event loop's clock


class FolderTools:
    """Lists and calls the functions of a folder, and notices what is put there.

    Before it lists, it looks at the names, times and sizes of the folder's modules, and at the
    generation that all processes share. When something has changed, the processes that run are
    let go, and the folder is read by a new one. Whoever asks meanwhile waits for that one.
    Nothing of the folder runs before somebody asks.

    Args:
        folder: Where the modules are. A folder that does not exist has none, and needs no process.
        hosts: The processes of this folder, which are ended with this toolset.
        looks: What looks at folders; toolsets that are asked together should share one.
        timeout_seconds: How long a call may run.
        gate: Says why nothing of the folder may be executed, if so.
    """

    def __init__(
        self,
        folder: Path,
        hosts: ToolHosts,
        looks: FolderLooks,
        *,
        timeout_seconds: float,
        gate: Gate = always_open,
    ) -> None:
        self.folder = folder
        self._hosts = hosts
        self._looks = looks
        self._timeout_seconds = timeout_seconds
        self._gate = gate
        self._discovery: _Discovery | None = None
        self._running: set[asyncio.Task[ToolListing]] = set()

    async def listing(self, selection: ToolSelection | None = None) -> ToolListing:
        """Return the folder's tools, all of them; nothing when none are asked about."""
        if selection is not None and not selection.names and selection.group is None:
            return NO_TOOLS
        look = await self._looks.at(self.folder)
        if look.files is None or look.fault is not None:
            self._forget()
            return NO_TOOLS if look.fault is None else self._unreadable(look.fault)
        if (reason := await self._gate()) is not None:
            self._forget()
            return self._shut(reason) if look.files else NO_TOOLS
        discovery = self._discovery
        if discovery is None or not self._is_current(discovery, look):
            discovery = self._discover(look)
        # Whoever is cancelled leaves the others their discovery.
        return await asyncio.shield(discovery.task)

    async def call_tool(self, invocation: ToolInvocation) -> ToolResult:
        """Call a function in a process of its own; failures are results.

        Raises:
            ToolNotFound: The folder has no such tool.
        """
        if invocation.name not in (await self.listing()).tools:
            raise ToolNotFound(invocation.name)
        return await self._hosts.call(
            invocation.name, invocation.arguments, timeout_seconds=self._timeout_seconds
        )

    async def reload(self) -> ToolListing:
        """Execute the folder's modules anew, here and in all other processes of the server.

        Calls that run are not touched.

        Raises:
            StorageFull: The disk is full; nothing was reloaded.
        """
        await self._looks.renew()
        return await self.listing()

    async def aclose(self) -> None:
        """End the folder's processes; calls that run fail, and discoveries find nothing."""
        await self._hosts.aclose()
        if self._running:
            await asyncio.wait(self._running)

    def _is_current(self, discovery: _Discovery, look: Look) -> bool:
        if asyncio.get_running_loop().time() >= discovery.retry_at:
            return False
        # A look from before the discovery says nothing that the discovery did not see.
        return look.number < discovery.look.number or look.is_like(discovery.look)

    def _discover(self, look: Look) -> _Discovery:
        self._forget()
        self._discovery = discovery = _Discovery(look)
        discovery.task = asyncio.create_task(self._read(discovery))
        self._running.add(discovery.task)
        discovery.task.add_done_callback(self._running.discard)
        return discovery

    async def _read(self, discovery: _Discovery) -> ToolListing:
        try:
            listing = _checked(await self._hosts.discover())
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


def _checked(reported: ToolListing) -> ToolListing:
    """Take from a process that ran somebody's modules what such a process may say, and no more."""
    tools: dict[str, Tool] = {}
    invalid = list(reported.invalid)
    for name, tool in reported.tools.items():
        is_object = tool.spec.parameters.get("type") == "object"
        is_name = NAME.fullmatch(name) and name != AGENT_TOOL
        if not is_name or tool.name != name or not is_object:
            reason = "What its process reports of it is no description of a tool."
            invalid.append(InvalidTool(name=name, file=_file(tool) or "?", reason=reason))
            continue
        tools[name] = Tool(
            spec=tool.spec,
            parameters=tool.parameters,
            groups=tool.groups,
            destructive=tool.destructive,
            file=_file(tool),
        )
    groups = {
        group: [name for name in names if name in tools] for group, names in reported.groups.items()
    }
    return ToolListing(tools=tools, groups=groups, invalid=invalid)


def _file(tool: Tool) -> str | None:
    """Return the file as a path within the folder; None for what is none."""
    path = PurePosixPath(tool.file or "/")
    return None if path.is_absolute() or ".." in path.parts else str(path)
