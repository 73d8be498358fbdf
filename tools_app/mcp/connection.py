"""Connects to MCP servers, through the SDK.

Importing this module imports the SDK, which takes a second: ``server`` imports it in a thread when
the first server starts.
"""

import asyncio
import logging
import re
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
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
from sessions_app.decoding import convert_to
from sessions_app.json_schema import find_fault
from tools_app.elicitation import AskPerson, InputGiven
from tools_app.mcp.config import HttpSpec, StdioSpec
from tools_app.mcp.descriptions import RESULT
from tools_app.mcp.elicitation import (
    OpenCalls,
    needed_by_error,
    needed_by_result,
    refusals,
    result_of_answer,
)
from tools_app.mcp.exchange import Replies, Requests, Streams
from tools_app.mcp.http import LOGIN_NEEDED, http_client
from tools_app.mcp.limits import MAX_LISTING_BYTES, MAX_MESSAGE_BYTES, MAX_TOOLS
from tools_app.mcp.login import ServerLogin
from tools_app.mcp.remote import (
    CallHeaders,
    RemoteError,
    RemoteListing,
    RemoteTool,
)
from tools_app.mcp.results import json_text, result_of
from tools_app.mcp.stderr import ErrorOutput
from tools_app.mcp.stdio import stdio_transport
from tools_app.toolset import OnProgress, ToolProgress, ToolResult

_MAX_PAGES = 100
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_REQUESTS: Mapping[str, tuple[type[types.ClientRequest], type[types.Result]]] = {
    "prompts/list": (types.ListPromptsRequest, types.ListPromptsResult),
    "prompts/get": (types.GetPromptRequest, types.GetPromptResult),
    "resources/list": (types.ListResourcesRequest, types.ListResourcesResult),
    "resources/read": (types.ReadResourceRequest, types.ReadResourceResult),
}
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
    login: ServerLogin | None = None,
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
        login: Has the token to send over HTTP; None for a server without logins.

    Raises:
        RemoteError: Its program can't be found.
        Exception: Any other error of the SDK, alone or in groups.
    """

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_change()

    calls = OpenCalls()
    client = Client(
        _transport(spec, stderr, on_end, call_headers, calls, login=login),
        message_handler=on_message,
        elicitation_callback=calls.answer,
        client_info=types.Implementation(name="mochi-server", version=VERSION),
        cache=None,
    )
    async with client:
        following = asyncio.create_task(_follow(client, on_change))
        try:
            yield SdkConnection(client, calls)
        finally:
            following.cancel()
            (ended,) = await asyncio.gather(following, return_exceptions=True)
            if isinstance(ended, Exception):
                logger.debug("Changes of tools were followed no more: %r", ended)


class SdkConnection:
    """A connection through the SDK's client.

    Args:
        client: The client.
        calls: Its running calls.
    """

    def __init__(self, client: Client, calls: OpenCalls) -> None:
        self._client = client
        self._calls = calls
        self._output_schemas: Mapping[str, Mapping[str, Any] | None] = {}

    async def list_tools(self) -> RemoteListing:
        """Return the tools, at most ``MAX_TOOLS`` and ``MAX_LISTING_BYTES`` of them.

        Raises:
            RemoteError: The server sent no valid list.
        """
        listing = await self._list_tools()
        self._output_schemas = {tool.name: tool.output_schema for tool in listing.tools}
        return msgspec.structs.replace(
            listing,
            instructions=self._client.instructions,
            has_resources=self._client.server_capabilities.resources is not None,
        )

    async def _list_tools(self) -> RemoteListing:
        tools: list[RemoteTool] = []
        refused: list[tuple[str, str]] = []
        size, cursor = 0, None
        for _ in range(_MAX_PAGES):
            page = await self._page(cursor)
            listed = convert_to((page.meta or {}).get(RESULT, {}), RemoteListing)
            refused += listed.refused[: MAX_TOOLS - len(refused)]
            names = {tool.name for tool in page.tools}  # the SDK drops some, for their headers
            for tool in (tool for tool in listed.tools if tool.name in names):
                size += len(msgspec.json.encode(tool))
                if len(tools) == MAX_TOOLS or size > MAX_LISTING_BYTES:
                    return RemoteListing(tools=tools, refused=refused, cut=True)
                tools.append(tool)
            if page.next_cursor in (None, cursor):
                break
            cursor = page.next_cursor
        return RemoteListing(tools=tools, refused=refused, cut=page.next_cursor is not None)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        on_progress: OnProgress,
        ask: AskPerson,
        given: InputGiven | None = None,
    ) -> ToolResult:
        """Call a tool by the server's name for it; the server is notified of a cancellation.

        Bypasses the client's ``call_tool``, which validates results against the server's schema on
        the event loop: a schema may contain a regular expression that never ends.

        Raises:
            RemoteError: The server refused, disconnected, or sent no valid result; or a person has
                to answer questions first.
        """

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            on_progress(ToolProgress(progress=progress, total=total, message=message))

        request = types.CallToolRequest(
            params=types.CallToolRequestParams(
                name=name, arguments=dict(arguments), **_responses(given)
            )
        )
        before = self._calls.refused.copy()
        try:
            with self._calls.running(ask):
                result = await self._client.session.send_request(
                    request, types.CallToolResult, progress_callback=progressed
                )
        except MCPError as error:
            raise _remote_error(error, *refusals(self._calls.refused - before)) from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError) as error:
            raise RemoteError("The connection was lost.", lost=True) from error
        ran: Mapping[str, Any] = (result.meta or {})[RESULT]
        if ran.get("resultType") == "input_required":
            words = "It asks for input, which can't be given here."
            addresses = _addresses(ran.get("inputRequests"))
            raise RemoteError(words + addresses, needs=needed_by_result(ran))
        # In a thread: it may be megabytes, and its schema takes a process.
        refused = refusals(self._calls.refused - before)
        return await asyncio.to_thread(_result, ran, name, self._output_schemas.get(name), refused)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send another request, and return its result as the server sent it.

        Raises:
            RemoteError: The server refused, disconnected, or wants something first.
        """
        kind, result_type = _REQUESTS[method]
        request = kind.model_validate({"method": method, "params": params})
        try:
            answer = await self._client.session.send_request(request, result_type)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND and method.endswith("/list"):
                return {}
            raise _remote_error(error) from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError) as error:
            raise RemoteError("The connection was lost.", lost=True) from error
        result: Mapping[str, Any] = (answer.meta or {})[RESULT]
        if result.get("resultType") == "input_required":
            raise RemoteError("It asks for input, which can't be given here.")
        return result

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
    calls: OpenCalls,
    *,
    login: ServerLogin | None,
) -> AsyncIterator[Streams]:
    async with AsyncExitStack() as stack:
        if isinstance(spec, HttpSpec):
            # In a thread: it reads the trusted certificates.
            client = await asyncio.to_thread(http_client, spec, call_headers, login)
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
        requests = Requests(streams[1], calls)
        yield Replies(streams[0], requests, calls.refused), requests


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


def _result(
    ran: Mapping[str, Any], name: str, schema: Mapping[str, Any] | None, refused: Sequence[str]
) -> ToolResult:
    """Return a result, with a sentence if its structured content does not fit. Blocks."""
    structured, notes = ran.get("structuredContent"), list[str]()
    if ran.get("isError"):
        notes += refused
    elif (
        schema is not None and structured is not None and (fault := find_fault(structured, schema))
    ):
        words = f"at {fault.path}: {fault.words}" if fault.path else fault.words
        notes.append(f"[The structured content does not fit the tool's schema: {words}]")
    return result_of(ran, name, notes)


def _remote_error(error: MCPError, *more: str) -> RemoteError:
    message = " ".join([error.message, *more])
    if error.code == types.URL_ELICITATION_REQUIRED:
        message += _addresses(error.data)
        try:
            return RemoteError(message, needs=needed_by_error(error.data))
        except RemoteError:
            return RemoteError(message)
    return RemoteError(
        message,
        lost=error.code == types.CONNECTION_CLOSED,
        unavailable=error.code == LOGIN_NEEDED,
    )


def _responses(given: InputGiven | None) -> dict[str, Any]:
    """Return what a repeated call brings."""
    if given is None:
        return {}
    answers = {key: result_of_answer(answer) for key, answer in given.answers.items()}
    return {"input_responses": answers or None, "request_state": given.request_state}


def _addresses(asked: object) -> str:
    """Return a sentence for each address that a person is asked to open, to sign in or to pay."""
    found = _ADDRESS.findall(json_text(asked))
    return "".join(f" A person has to open this address first: {url}" for url in found)
