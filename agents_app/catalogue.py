"""Discovers agents: their folders, and the tools that each has in processes of its own."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from agents_app.agent import AgentDefinition
from agents_app.errors import AgentInvalid, AgentNotFound
from agents_app.folders import AgentFolder, read_folders
from tools_app.folder import FolderTools
from tools_app.gate import Gate, always_open
from tools_app.hosts.fork_server_client import ForkServerClient
from tools_app.hosts.pool import HostPool
from tools_app.limits import HostLimits, ToolFolder
from tools_app.storage.generations import Generations
from tools_app.toolset import InvalidTool, ToolListing

DISCOVERIES_AT_ONCE = 4
"""Agents whose modules are imported at the same time."""

_MAX_REASONS = 10
_NO_TOOL = (
    "It has no tool: import at least one function in __init__.py and list its name in __all__."
)


class AgentCatalogue:
    """Keeps the agents of a directory. Nothing of them runs before it is asked for.

    Results are up to date: changed ``SKILL.md`` files, modules and folders are detected; unchanged
    ones are not read again. An invalid agent is listed with all reasons, and does not affect
    others.

    Args:
        agents_dir: The directory of the agents' folders; need not exist.
        fork_server: Starts the processes in which their modules are imported and called.
        generations: The generation of all agents, which a reload in any process changes.
        timeout_seconds: How long a call of a tool may run.
        limits: Bounds on the processes of each agent.
        chats_dir: The directory of agents' sessions, by default ``agent_chats`` in ``agents_dir``.
        gate: Returns why no code of agents may be executed, if so.
    """

    def __init__(
        self,
        agents_dir: Path,
        *,
        fork_server: ForkServerClient,
        generations: Generations,
        timeout_seconds: float,
        limits: HostLimits | None = None,
        chats_dir: Path | None = None,
        gate: Gate = always_open,
    ) -> None:
        self.agents_dir = agents_dir
        self._fork_server = fork_server
        self._generations = generations
        self._timeout_seconds = timeout_seconds
        self._limits = limits or HostLimits()
        self._chats_dir = chats_dir
        self._gate = gate
        self._discovering = asyncio.Semaphore(DISCOVERIES_AT_ONCE)
        self._tools: dict[str, FolderTools] = {}

    async def list(self, names: Collection[str] | None = None) -> Mapping[str, AgentDefinition]:
        """Return the agents by name, in order: all of them, or those of these names that exist.

        Never raises because of the directory's content.

        Args:
            names: The agents to list; others are not read, and their code does not run.
        """
        only = None if names is None else frozenset(names)
        if only is not None and not only:
            return {}
        folders = await asyncio.to_thread(
            read_folders, self.agents_dir, chats_dir=self._chats_dir, only=only
        )
        if folders and (reason := await self._gate()) is not None:
            return {name: _shut(folder, reason) for name, folder in folders.items()}
        defined = await asyncio.gather(*map(self._define, folders.values()))
        return {agent.name: agent for agent in defined}

    async def names(self) -> Collection[str]:
        """Return the names of all agents, valid or not, without running their code."""
        return await asyncio.to_thread(read_folders, self.agents_dir, chats_dir=self._chats_dir)

    async def get(self, name: str) -> AgentDefinition:
        """Return one agent, valid or not.

        Raises:
            AgentNotFound: There is no agent of this name.
        """
        try:
            return (await self.list([name]))[name]
        except KeyError:
            raise AgentNotFound(name) from None

    async def usable(self, name: str) -> AgentDefinition:
        """Return one agent that works.

        Raises:
            AgentNotFound: There is no agent of this name.
            AgentInvalid: There is, and something is wrong with it.
        """
        agent = await self.get(name)
        if not agent.valid:
            raise AgentInvalid(name, agent.error_message or "")
        return agent

    def toolset(self, name: str) -> FolderTools:
        """Return the tools of an agent that was listed, got or used before.

        Raises:
            AgentNotFound: It was not, or has no tools.
        """
        try:
            return self._tools[name]
        except KeyError:
            raise AgentNotFound(name) from None

    async def reload(self) -> Mapping[str, AgentDefinition]:
        """Read all agents again, in all processes of the server.

        Running calls continue with the code that they started with.

        Raises:
            StorageFull: The disk is full; nothing was reloaded.
        """
        await asyncio.to_thread(self._generations.bump)
        return await self.list()

    async def aclose(self) -> None:
        """End the agents' processes; calls that run fail."""
        await asyncio.gather(*(tools.aclose() for tools in self._tools.values()))

    async def _define(self, folder: AgentFolder) -> AgentDefinition:
        if not folder.has_code:
            return definition(folder, None)
        if folder.name not in self._tools:
            self._tools[folder.name] = self._open(folder)
        return definition(folder, await self._tools[folder.name].listing())

    def _open(self, folder: AgentFolder) -> FolderTools:
        hosted = ToolFolder(path=folder.path, name=f"agent {folder.name}")
        hosts = HostPool(self._fork_server, hosted, self._limits, discovering=self._discovering)
        return FolderTools(
            folder.path, hosts, self._generations, timeout_seconds=self._timeout_seconds
        )


def definition(folder: AgentFolder, listing: ToolListing | None) -> AgentDefinition:
    """Return the definition of an agent.

    Args:
        folder: Its folder.
        listing: Its tools; None when they were not asked for, because there can be none.
    """
    reasons = list(folder.faults)
    tools, invalid = (listing.tools, listing.invalid) if listing is not None else ({}, ())
    if listing is not None and not tools:
        reasons += [_NO_TOOL] if not invalid else [_reason(entry) for entry in invalid]
    return AgentDefinition(
        name=folder.name,
        description=folder.skill.description,
        system_prompt=folder.skill.system_prompt,
        model=folder.skill.model,
        tools=tools,
        valid=not reasons,
        error_message=_sentences(reasons),
        invalid_tools=invalid,
    )


def _shut(folder: AgentFolder, reason: str) -> AgentDefinition:
    return definition(msgspec.structs.replace(folder, faults=(reason,)), None)


def _reason(entry: InvalidTool) -> str:
    where = f"{entry.file}, {entry.name}" if entry.file else entry.name
    reason = entry.reason if entry.reason.endswith((".", "!", "?", "...")) else f"{entry.reason}."
    return f"{where}: {reason}"


def _sentences(reasons: Sequence[str]) -> str | None:
    shown = list(reasons[:_MAX_REASONS])
    if len(reasons) > _MAX_REASONS:
        shown.append(f"And {len(reasons) - _MAX_REASONS} more.")
    return " ".join(shown) or None
