"""Provides the tools: the tools folder, MCP servers, and the record of calls."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from mochi_project.addresses import is_public_web, is_this_machine
from mochi_project.app import Factory, ServiceMissing, Services
from mochi_project.configuration.app_settings import AppSettings
from mochi_project.configuration.config import ServerSettings
from mochi_project.principal import principal
from mochi_project.trust.contents import MCP, TOOLS
from mochi_project.trust.gate import TrustGate
from sessions_app.attachments.service import AttachmentService
from sessions_app.deadline import Deadline
from sessions_app.ids_and_clock import SharedClock
from sessions_app.service import SessionManager
from sessions_app.settings import SessionsSettings
from sessions_app.store.records import RecordStores
from tools_app.catalogue import ToolCatalogue
from tools_app.execution_log import ExecutionLog
from tools_app.folder import FolderTools
from tools_app.hosts.fork_server_client import ForkServerClient, KeyNames
from tools_app.hosts.pool import HostPool
from tools_app.limits import MEBIBYTE, HostLimits, ToolFolder
from tools_app.mcp.login import LoginNotice, LoginPolicy
from tools_app.mcp.login_records import LoginRecords
from tools_app.mcp.logins import McpLogins
from tools_app.mcp.remote import ToolCallHeaders
from tools_app.mcp.toolset import McpTools
from tools_app.recall.search import ConversationSearch
from tools_app.recall.toolset import RecallTools
from tools_app.result_files import ResultFiles
from tools_app.result_reader import ResultReader
from tools_app.settings import ToolsSettings
from tools_app.storage.call_log import CallLog
from tools_app.storage.files.call_log import FileCallLog
from tools_app.storage.generations import Generations
from tools_app.toolset import Toolset


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServices:
    """The services of tools that all owners share."""

    folder: FolderTools
    mcp: McpTools
    executions: ExecutionLog
    fork_server: ForkServerClient

    async def aclose(self) -> None:
        """End every process and connection, and write the rest of the record."""
        async with AsyncExitStack() as stack:  # the last one first
            stack.push_async_callback(self.executions.aclose)
            stack.push_async_callback(self.fork_server.aclose)
            await asyncio.gather(self.folder.aclose(), self.mcp.aclose())


def _tools(services: Services) -> ToolServices:
    settings = services.get(ToolsSettings)
    fork_server = ForkServerClient(
        settings.resolved_data_dir,
        env_file=settings.env_file,
        added=partial(_variables_of_owner, services),
        keys=services.get(KeyNames),
        passed=settings.tool_environment,
        deadline=services.get(Deadline),
    )
    hosted = ToolFolder(path=settings.resolved_tools_dir, name="tools")
    folder = FolderTools(
        hosted.path,
        HostPool(fork_server, hosted, host_limits(settings)),
        build_generations(services, hosted.name),
        timeout_seconds=settings.tool_timeout_seconds,
        gate=TrustGate(settings.trust, TOOLS),
    )
    mcp = McpTools(
        settings.resolved_mcp_config_path,
        timeout_seconds=settings.tool_timeout_seconds,
        gate=TrustGate(settings.trust, MCP),
        call_headers=services.get(ToolCallHeaders).make,
        logins=services.get(LoginPolicy),
    )
    executions = ExecutionLog(services.get(CallLog))
    tools = ToolServices(folder=folder, mcp=mcp, executions=executions, fork_server=fork_server)
    services.on_close(tools.aclose)
    return tools


def _login_policy(services: Services) -> LoginPolicy:
    settings, directory = services.get(ServerSettings), services.get(AppSettings).resolved_state_dir
    records = services.get(RecordStores).open(directory / "mcp_tokens", "mcp_tokens")
    return LoginPolicy(
        records=LoginRecords(records, services.get(SharedClock), services.get(LoginNotice).note),
        addresses=is_this_machine if settings.test_mode else is_public_web,
    )


def _logins(services: Services) -> McpLogins:
    settings = services.get(ServerSettings)
    records = services.get(LoginPolicy).records
    return McpLogins(services.get(McpTools), records, settings.public_url, settings.port)


def _variables_of_owner(services: Services) -> Mapping[str, str]:
    """Return the variables of tools that run for the present owner of data."""
    owner = principal().owner
    workspace = services.get(ToolsSettings).for_owner(owner).resolved_workspace
    return {"MOCHI_OWNER": owner, "MOCHI_WORKSPACE": str(workspace)}


def build_generations(services: Services, name: str) -> Generations:
    """Build the generation of some folders; opens nothing."""
    directory, record = services.get(AppSettings).resolved_state_dir, f"{name}.generation"
    return Generations(services.get(RecordStores).open_one(directory, record), record)


def _files(services: Services) -> ResultFiles:
    most = services.get(SessionsSettings).max_attachments
    return ResultFiles(services.get(AttachmentService), most=most)


def recorded(services: Services, *toolsets: Toolset) -> ToolCatalogue:
    """Wrap toolsets so that their calls are recorded and an owner has their files."""
    executions, files = services.get(ExecutionLog), services.get(ResultFiles)
    return ToolCatalogue([services.get(ResultReader), *toolsets], executions, files)


def _recall(services: Services) -> RecallTools:
    try:
        search = services.get(ConversationSearch)
    except ServiceMissing:  # the app that has one can be left out
        search = None
    return RecallTools(lambda session_id: services.get(SessionManager).get(session_id), search)


def _catalogue(services: Services) -> ToolCatalogue:
    # People's own tools win a name, so the built-in ones come last.
    kinds = (FolderTools, McpTools, RecallTools)
    return recorded(services, *map(services.get, kinds))


def host_limits(settings: ToolsSettings) -> HostLimits:
    """Return the limits of a process that runs people's functions."""
    return HostLimits(memory_bytes=settings.tool_memory_mb * MEBIBYTE)


FACTORIES: Mapping[type | str, Factory] = {
    CallLog: lambda services: FileCallLog(
        services.get(AppSettings).resolved_state_dir / "executions.jsonl"
    ),
    ToolCallHeaders: lambda _: ToolCallHeaders(),
    ToolServices: _tools,
    FolderTools: lambda services: services.get(ToolServices).folder,
    LoginNotice: lambda _: LoginNotice(),
    LoginPolicy: _login_policy,
    McpLogins: _logins,
    McpTools: lambda services: services.get(ToolServices).mcp,
    ExecutionLog: lambda services: services.get(ToolServices).executions,
}
OWNED: Mapping[type | str, Factory] = {
    ResultFiles: _files,
    ResultReader: lambda services: ResultReader(services.get(AttachmentService)),
    RecallTools: _recall,
    ToolCatalogue: _catalogue,
}
