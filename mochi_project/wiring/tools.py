"""Builds the tools: the tools folder, MCP servers, and the record of calls."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

from mochi_project.configuration.config import MochiSettings
from mochi_project.trust.contents import MCP, TOOLS
from mochi_project.trust.gate import TrustGate
from mochi_project.wiring.cluster import Cluster
from mochi_project.wiring.documents import build_profiles
from mochi_project.wiring.key_variables import KeyVariables
from sessions_app.deadline import NEVER, Deadline
from sessions_app.store.file_records import FileRecords
from tools_app.catalogue import ToolCatalogue
from tools_app.execution_log import ExecutionLog
from tools_app.folder import FolderTools
from tools_app.folder_snapshots import FolderSnapshots
from tools_app.hosts.fork_server_client import ForkServerClient
from tools_app.hosts.limits import MEBIBYTE, HostLimits, ToolFolder
from tools_app.hosts.pool import HostPool
from tools_app.mcp.remote import CallHeaders
from tools_app.mcp.toolset import McpTools
from tools_app.result_files import KeepFile, ResultFiles
from tools_app.storage.call_log import CallLog
from tools_app.storage.files.call_log import FileCallLog
from tools_app.storage.generations import Generations
from tools_app.toolset import Toolset


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServices:
    """The services of tools."""

    catalogue: ToolCatalogue
    folder: FolderTools
    mcp: McpTools
    executions: ExecutionLog
    files: ResultFiles
    fork_server: ForkServerClient

    def recorded(self, toolset: Toolset) -> Toolset:
        """Wrap a toolset so that its calls are recorded and its files stored."""
        return ToolCatalogue([toolset], self.executions, self.files)

    async def aclose(self) -> None:
        """End every process and connection, and write the rest of the record."""
        async with AsyncExitStack() as stack:  # the last one first
            stack.push_async_callback(self.executions.aclose)
            stack.push_async_callback(self.fork_server.aclose)
            await asyncio.gather(self.folder.aclose(), self.mcp.aclose())


def build_tools(
    settings: MochiSettings,
    cluster: Cluster | None,
    attachments: KeepFile,
    call_headers: CallHeaders | None = None,
    deadline: Deadline = NEVER,
) -> ToolServices:
    """Build the toolsets, which start on first use.

    Args:
        settings: The configuration.
        cluster: The connections shared with other machines, if any.
        attachments: Stores the files that tools return.
        call_headers: Returns additional headers for calls to MCP servers; None for none.
        deadline: The deadline of this process, once it stops.
    """
    workspace = {"MOCHI_WORKSPACE": str(settings.resolved_workspace)}
    fork_server = ForkServerClient(
        settings.resolved_data_dir,
        added=workspace,
        keys=KeyVariables(settings, build_profiles(settings, cluster)).names,
        passed=settings.tool_environment,
        deadline=deadline,
    )
    hosted = ToolFolder(path=settings.resolved_tools_dir, name="tools")
    folder = FolderTools(
        hosted.path,
        HostPool(fork_server, hosted, host_limits(settings)),
        FolderSnapshots(build_generations(settings, cluster, hosted.name)),
        timeout_seconds=settings.tool_timeout_seconds,
        gate=TrustGate(settings.trust, TOOLS),
    )
    mcp = McpTools(
        settings.resolved_mcp_config_path,
        timeout_seconds=settings.tool_timeout_seconds,
        gate=TrustGate(settings.trust, MCP),
        call_headers=call_headers,
    )
    executions = ExecutionLog(_call_log(settings, cluster))
    files = ResultFiles(attachments, most=settings.max_attachments)
    return ToolServices(
        catalogue=ToolCatalogue([folder, mcp], executions, files),
        folder=folder,
        mcp=mcp,
        executions=executions,
        files=files,
        fork_server=fork_server,
    )


def build_generations(settings: MochiSettings, cluster: Cluster | None, name: str) -> Generations:
    """Build the generation of some folders; opens nothing."""
    record = f"{name}.generation"
    if cluster is None:
        records = FileRecords(settings.resolved_state_dir, names=record, durable=False)
        return Generations(records, record)
    from cluster_app.redis.records import RedisRecords  # noqa: PLC0415 - an extra

    return Generations(RedisRecords(cluster.connection, "generations", names=record), record)


def _call_log(settings: MochiSettings, cluster: Cluster | None) -> CallLog:
    if cluster is None:
        return FileCallLog(settings.resolved_state_dir / "executions.jsonl")
    from cluster_app.redis.call_log import RedisCallLog  # noqa: PLC0415 - an extra

    return RedisCallLog(cluster.connection)


def host_limits(settings: MochiSettings) -> HostLimits:
    """Return the limits of a process that runs people's functions."""
    return HostLimits(memory_bytes=settings.tool_memory_mb * MEBIBYTE)
