"""Connects to MCP servers, through the SDK.

Importing this module imports the SDK, which takes a second: ``server`` imports it in a thread when
the first server starts.
"""

import asyncio
import logging
import re
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp.client import Client
from mcp.client.session import IncomingMessage
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mochi_project.version import VERSION
from tools_app.mcp.config import HttpSpec, StdioSpec
from tools_app.mcp.descriptions import REFUSED, RESULT
from tools_app.mcp.exchange import Replies, Requests, Streams
from tools_app.mcp.http import http_client
from tools_app.mcp.limits import MAX_LISTING_BYTES, MAX_MESSAGE_BYTES, MAX_TOOLS
from tools_app.mcp.remote import CallHeaders, RemoteError, RemoteListing, RemoteResult, RemoteTool
from tools_app.mcp.results import json_text, result_of
from tools_app.mcp.stderr import ErrorOutput
from tools_app.mcp.stdio import stdio_transport
from tools_app.toolset import OnProgress, ToolProgress

_MAX_PAGES = 100
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_ADDRESS = re.compile(r'"url":"(https?://[^"\\]+)"')

logger = logging.getLogger(__name__)


@asynccontextmanager
async def connect(
    spec: StdioSpec | HttpSpec,
    *,
    stderr: ErrorOutput,
    on_end: Callable[[str], None],
    on_change: Callable[[], None],
    call_headers: CallHeaders | None = None,
) -> AsyncIterator["SdkConnection"]:
    """Start or reach the server, and negotiate the protocol version.

    Must be left in the task that entered it.

    Args:
        spec: The server.
        stderr: Receives its program's stderr.
        on_end: Called with the reason when a program has ended by itself. (Over HTTP only calls
            end; other failures are raised in the task that entered this.)
        on_change: Called when the server's tools may have changed.
        call_headers: Returns further headers of a request over HTTP; None for none.

    Raises:
        RemoteError: Its program can't be found.
        Exception: Any other error of the SDK, alone or in groups.
    """

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_change()

    client = Client(
        _transport(spec, stderr, on_end, call_headers),
        message_handler=on_message,
        client_info=types.Implementation(name="mochi-server", version=VERSION),
        cache=None,
    )
    async with client:
        following = asyncio.create_task(_follow(client, on_change))
        try:
            yield SdkConnection(client)
        finally:
            following.cancel()
            (ended,) = await asyncio.gather(following, return_exceptions=True)
            if isinstance(ended, Exception):
                logger.debug("Changes of tools were followed no more: %r", ended)


class SdkConnection:
    """A connection through the SDK's client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list_tools(self) -> RemoteListing:
        """Return the tools, at most ``MAX_TOOLS`` and ``MAX_LISTING_BYTES`` of them.

        Raises:
            RemoteError: The server sent no valid list.
        """
        tools: list[RemoteTool] = []
        refused: list[tuple[str, str]] = []
        size, cursor = 0, None
        for _ in range(_MAX_PAGES):
            page = await self._page(cursor)
            refused += (page.meta or {}).get(REFUSED, ())[: MAX_TOOLS - len(refused)]
            for tool in map(_remote_tool, page.tools):
                size += len(tool.name) + len(tool.description)
                size += len(msgspec.json.encode(tool.input_schema))
                if len(tools) == MAX_TOOLS or size > MAX_LISTING_BYTES:
                    return RemoteListing(tools=tools, refused=refused, cut=True)
                tools.append(tool)
            if page.next_cursor in (None, cursor):
                break
            cursor = page.next_cursor
        return RemoteListing(tools=tools, refused=refused, cut=page.next_cursor is not None)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress
    ) -> RemoteResult:
        """Call a tool by the server's name for it; the server is notified of a cancellation.

        Bypasses the client's ``call_tool``, which validates results against the server's schema on
        the event loop: a schema may contain a regular expression that never ends.

        Raises:
            RemoteError: The server refused, disconnected, or sent no valid result.
        """

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            on_progress(ToolProgress(progress=progress, total=total, message=message))

        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=name, arguments=dict(arguments))
        )
        try:
            result = await self._client.session.send_request(
                request, types.CallToolResult, progress_callback=progressed
            )
        except MCPError as error:
            raise _remote_error(error) from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError) as error:
            raise RemoteError("The connection was lost.", lost=True) from error
        ran: Mapping[str, Any] = (result.meta or {})[RESULT]
        if ran.get("resultType") == "input_required":
            words = "It asks for input, which can't be given here."
            raise RemoteError(words + _addresses(ran.get("inputRequests")))
        return await asyncio.to_thread(result_of, ran, name)  # which may be megabytes

    async def _page(self, cursor: str | None) -> types.ListToolsResult:
        try:
            return await self._client.list_tools(cursor=cursor)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                return types.ListToolsResult(tools=[])
            raise _remote_error(error) from error
        except ValidationError as error:
            raise RemoteError("Its list of tools is not valid: it is no list.") from error


@asynccontextmanager
async def _transport(
    spec: StdioSpec | HttpSpec,
    stderr: ErrorOutput,
    on_end: Callable[[str], None],
    call_headers: CallHeaders | None,
) -> AsyncIterator[Streams]:
    async with AsyncExitStack() as stack:
        if isinstance(spec, HttpSpec):
            # In a thread: it reads the trusted certificates.
            client = await asyncio.to_thread(http_client, spec, call_headers)
            await stack.enter_async_context(client)
            opening = streamable_http_client(
                spec.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
            )
            streams = await stack.enter_async_context(opening)
        else:
            env = {**get_default_environment(), **spec.env}
            command = [await asyncio.to_thread(_find, spec, env.get("PATH")), *spec.args]
            running = stdio_transport(command, env=env, cwd=spec.cwd, stderr=stderr, on_end=on_end)
            streams = await stack.enter_async_context(running)
        requests = Requests(streams[1])
        yield Replies(streams[0], requests), requests


def _find(spec: StdioSpec, path: str | None) -> str:
    """Return the program's path, with an error of our own if it is missing."""
    if not Path(spec.cwd).is_dir():
        raise RemoteError("Its 'cwd' is not a directory.")
    command = str(Path(spec.command).expanduser())
    if "/" in command:
        command = str(Path(spec.cwd, command))
    found = shutil.which(command, path=path)
    if found is None:
        raise RemoteError(f"The command {spec.command!r} is not installed, or not on the PATH.")
    return found


async def _follow(client: Client, on_change: Callable[[], None]) -> None:
    """Subscribe to changes of tools, in newer protocols; in older ones servers just notify."""
    tools = client.server_capabilities.tools
    if not (tools and tools.list_changed):
        return
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            async with client.listen(tools_list_changed=True) as subscription:
                if not subscription.honored.tools_list_changed:
                    return
                if pause > _FIRST_PAUSE_SECONDS:
                    on_change()  # changes in between were missed
                async for _ in subscription:
                    pause = _FIRST_PAUSE_SECONDS
                    on_change()
        except (SubscriptionLost, TimeoutError):
            logger.debug("A subscription to changes of tools was lost.")
        except (ListenNotSupportedError, MCPError):
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _remote_tool(tool: types.Tool) -> RemoteTool:
    hints = tool.annotations or types.ToolAnnotations()
    return RemoteTool(
        name=tool.name,
        description=tool.description or tool.title or "",
        input_schema=tool.input_schema,
        read_only=hints.read_only_hint is True,
        destructive=hints.destructive_hint is not False,
    )


def _remote_error(error: MCPError) -> RemoteError:
    asked = error.data if error.code == types.URL_ELICITATION_REQUIRED else None
    message = error.message + _addresses(asked)
    return RemoteError(message, lost=error.code == types.CONNECTION_CLOSED)


def _addresses(asked: object) -> str:
    """Return a sentence for each address that a person is asked to open, to sign in or to pay."""
    found = _ADDRESS.findall(json_text(asked))
    return "".join(f" A person has to open this address first: {url}" for url in found)
