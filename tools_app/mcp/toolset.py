"""Combines the MCP servers of ``mcp.json`` into one toolset."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from mochi_project.principal import principal
from sessions_app.errors import ValidationFailed
from tools_app.errors import (
    EXECUTION_FAILED,
    INVALID_ARGUMENTS,
    TIMED_OUT,
    UNAVAILABLE,
    LoginNotOffered,
    ToolNotFound,
    ToolServerNotFound,
    ToolServerUnavailable,
)
from tools_app.gate import Gate, always_open
from tools_app.mcp.config import BrokenSpec, ConfigFile, HttpSpec, McpConfig, Spec
from tools_app.mcp.limits import McpLimits
from tools_app.mcp.login import LoginPolicy, ServerLogin
from tools_app.mcp.naming import NO_TOOLS, NamedTools, server_of
from tools_app.mcp.remote import CallHeaders, RemoteError
from tools_app.mcp.resources import use_resources
from tools_app.mcp.server import ManagedServer
from tools_app.schemas import InvalidToolOut, McpLoginOut, McpServerOut
from tools_app.toolset import InvalidTool, ToolInvocation, ToolListing, ToolResult, ToolSelection

FILE = "mcp.json"

_HOPEFUL = frozenset({"ready", "starting"})
_IDLE = frozenset({"stopped", "failed", "needs_login"})


class McpTools:
    """A toolset of the servers in a file. Each web process has its own connections.

    Nothing is read or started before the first call, and only servers that the caller needs are
    waited for. Each listing checks the file for changes. Belongs to the event loop that uses it
    first.

    Args:
        config_path: The ``mcp.json``; it need not exist.
        timeout_seconds: How long a call may take without progress.
        limits: All other times; for tests.
        gate: Returns why the file must not be used; None when it may.
        call_headers: Returns further headers of a call over HTTP, in its task; None for none.
        logins: What the logins to servers have in common; None for none.
    """

    def __init__(
        self,
        config_path: Path,
        *,
        timeout_seconds: float,
        limits: McpLimits | None = None,
        gate: Gate = always_open,
        call_headers: CallHeaders | None = None,
        logins: LoginPolicy | None = None,
    ) -> None:
        self._logins = logins
        self._call_headers = call_headers
        self._file = ConfigFile(config_path)
        self._gate = gate
        self._limits = msgspec.structs.replace(limits or McpLimits(), call=timeout_seconds)
        self._config = McpConfig()
        self._servers: dict[str, ManagedServer] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    async def listing(self, selection: ToolSelection | None = None) -> ToolListing:
        """Return the tools of the selected servers, or of all without a selection.

        Waits 2 seconds for servers that start, with a selection at most 10. A server that has
        worked keeps its tools while it is down, and each one has its group, maybe an empty one.
        """
        concerned = None
        if selection is not None:
            servers = {server_of(name) for name in selection.names}
            concerned = frozenset(name for name in {*servers, selection.group} if name)
            if not concerned:
                return ToolListing()
        await self._follow()
        chosen = [
            server
            for name, server in self._servers.items()
            if (concerned is None or name in concerned) and self._is_offered(name)
        ]
        within = self._limits.listing_wait if selection is None else self._limits.start_wait
        unknown = [server for server in chosen if not server.named.tools]
        for server in chosen:
            await server.request_start()
        await asyncio.gather(*(server.wait_ready(within=within) for server in unknown))
        return ToolListing(
            tools={name: tool for server in chosen for name, tool in server.named.tools.items()},
            groups={server.name: server.named.group for server in chosen},
            invalid=[
                *self._broken(concerned),
                *(invalid for server in chosen for invalid in server.named.invalid),
            ],
        )

    async def call_tool(self, invocation: ToolInvocation) -> ToolResult:
        """Call a tool; its server is started if necessary.

        When the caller is cancelled, the server is sent ``notifications/cancelled`` before the
        cancellation propagates; the server may ignore it.

        Raises:
            ToolNotFound: No server of ``mcp.json`` has a tool of this name.
        """
        server = await self._server_with(invocation.name)
        try:
            msgspec.json.encode(invocation.arguments)
        except (UnicodeEncodeError, TypeError) as error:
            return _failure(server, f"The arguments are not JSON: {error}", INVALID_ARGUMENTS)
        try:
            if (tool := server.named.tools.get(invocation.name)) is not None and tool.resources:
                result = await use_resources(server, tool, invocation)
            else:
                result = await server.call_tool(invocation)
        except ValidationFailed as error:
            return _failure(server, error.message, INVALID_ARGUMENTS)
        except TimeoutError:
            seconds = f"{self._limits.call:g}"
            return _failure(
                server, f"The tool gave no output for {seconds} seconds and was stopped.", TIMED_OUT
            )
        except RemoteError as error:
            said = f" can't be used: {error}" if error.unavailable else f": {error}"
            code = UNAVAILABLE if error.unavailable else EXECUTION_FAILED
            failure = _failure(server, f"The MCP server {server.name!r}{said}", code)
            return msgspec.structs.replace(failure, needs=error.needs)
        if server.login is not None:
            await server.login.note_success()
        return msgspec.structs.replace(result, server=server.name)

    async def _server_with(self, tool_name: str) -> ManagedServer:
        """Return the server of a tool; ``ToolNotFound`` if it is known to have no such tool."""
        await self._follow()
        server = self._servers.get(server_of(tool_name) or "")
        if server is None or not self._is_offered(server.name):
            raise ToolNotFound(tool_name)
        if not server.named.tools:
            await server.wait_ready(within=self._limits.start_wait)
        if server.state == "ready" and tool_name not in server.named.tools:
            raise ToolNotFound(tool_name)
        return server

    async def servers(self) -> Sequence[McpServerOut]:
        """Return the status of every server in the file; starts none."""
        await self._follow()
        error = self._config.error
        return [
            *([_shown(FILE, "", "failed", error)] if error else []),
            *[
                await self._status(name, spec)
                for name, spec in self._config.servers.items()
                if self._is_offered(name)
            ],
        ]

    async def server(self, name: str) -> ManagedServer:
        """Return a server that may be used; it is started when it is asked.

        Raises:
            ToolServerNotFound: The file has no server of this name.
            ToolServerUnavailable: It is disabled, or must not be used, or its entry is broken.
        """
        await self._follow()
        if (reason := await self._gate()) is not None:
            raise ToolServerUnavailable(name, reason, retryable=False)
        if not self._is_offered(name):
            raise ToolServerNotFound(name)
        server, spec = self._servers.get(name), self._config.servers[name]
        if server is None:
            reason = spec.error if isinstance(spec, BrokenSpec) else "It is disabled."
            raise ToolServerUnavailable(name, reason, retryable=False)
        return server

    async def login(self, name: str) -> tuple[ManagedServer, ServerLogin]:
        """Return a server that people may be able to log in to, and its login.

        Raises:
            ToolServerNotFound, ToolServerUnavailable: As ``server`` does.
            LoginNotOffered: Nobody can log in there.
        """
        server = await self.server(name)
        if server.login is None:
            why = "Only servers over HTTP have logins, without an 'Authorization' header."
            raise LoginNotOffered(name, why)
        return server, server.login

    async def restart(self, name: str) -> McpServerOut:
        """Restart a server, and wait at most 10 s for the outcome.

        Other web processes keep their connections.

        Raises:
            ToolServerNotFound: The file has no server of this name.
            ToolServerUnavailable: It failed again, is disabled, or its entry is broken.
        """
        server = await self.server(name)
        await server.restart()
        status = await self._status(name, server.spec)
        if status.state not in _HOPEFUL:
            raise ToolServerUnavailable(name, status.error or f"It is {status.state}.")
        return status

    async def aclose(self) -> None:
        """End all servers, within a bounded time; no further calls are possible."""
        self._closed = True
        self._end(list(self._servers))
        if self._ending:
            await asyncio.wait(self._ending)

    def _is_offered(self, name: str) -> bool:
        """Return whether there is a server of this name for the caller's owner of data."""
        spec = self._config.servers.get(name)
        return spec is not None and (spec.owners is None or principal().owner in spec.owners)

    async def _follow(self) -> None:
        """Adopt the servers of the file: end those that were removed or changed."""
        reason = await self._gate()
        config = await (self._file.current() if reason is None else self._file.unused(reason))
        if config is self._config or self._closed:
            return
        self._config = config
        wanted = {
            name: spec
            for name, spec in config.servers.items()
            if not isinstance(spec, BrokenSpec) and not spec.disabled
        }
        self._end([n for n, server in self._servers.items() if wanted.get(n) != server.spec])
        self._servers = {
            name: self._servers.get(name)
            or ManagedServer(
                name, spec, self._limits, self._call_headers, self._login_to(name, spec)
            )
            for name, spec in wanted.items()
        }

    def _login_to(self, name: str, spec: Spec) -> ServerLogin | None:
        if self._logins is None or not isinstance(spec, HttpSpec) or spec.oauth is None:
            return None
        return ServerLogin(name, spec, self._logins)

    def _end(self, names: Iterable[str]) -> None:
        for name in names:
            task = asyncio.create_task(self._servers.pop(name).aclose())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _status(self, name: str, spec: Spec) -> McpServerOut:
        server = self._servers.get(name)
        if isinstance(spec, BrokenSpec):
            return _shown(name, spec.transport, "failed", spec.error)
        if server is None:
            return _shown(name, spec.transport, "disabled" if spec.disabled else "stopped")
        login, unusable = (None, None) if server.login is None else await server.login.status()
        state, error = server.state, server.error
        if unusable is not None and state in _IDLE:
            state = "needs_login"
            error = error if (error or "").startswith(unusable) else unusable
        return _shown(name, spec.transport, state, error, login=login, named=server.named)

    def _broken(self, concerned: frozenset[str] | None) -> list[InvalidTool]:
        broken = [
            InvalidTool(name=name, file=FILE, reason=spec.error)
            for name, spec in self._config.servers.items()
            if isinstance(spec, BrokenSpec)
            and (concerned is None or name in concerned)
            and self._is_offered(name)
        ]
        if self._config.error:
            broken.insert(0, InvalidTool(name=FILE, file=FILE, reason=self._config.error))
        return broken


def _shown(
    name: str,
    transport: str,
    state: str,
    error: str | None = None,
    *,
    login: McpLoginOut | None = None,
    named: NamedTools = NO_TOOLS,
) -> McpServerOut:
    return McpServerOut(
        name=name,
        transport=transport,
        state=state,
        error=error,
        login=login,
        tools=[*named.group],
        invalid=[InvalidToolOut.model_validate(each) for each in named.invalid],
    )


def _failure(server: ManagedServer, message: str, code: str) -> ToolResult:
    return ToolResult(success=False, error_message=message, error_code=code, server=server.name)
