"""Answers MCP's methods: tools that recall conversations, sessions as resources, prompt files."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from dialects_app.mcp.protocol import (
    CAPABILITIES,
    HANDSHAKE_VERSIONS,
    INSTRUCTIONS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SERVER_INFO,
    VERSIONS,
    McpMessage,
    RpcError,
)
from prompts_app.prompts import PromptSummary
from prompts_app.service import SystemPromptService
from sessions_app.errors import MochiError, SessionNotFound, ValidationFailed
from sessions_app.messages import ToolSpec
from sessions_app.service import SessionManager
from tools_app.errors import INVALID_ARGUMENTS, ToolNotFound
from tools_app.limits import MEBIBYTE
from tools_app.recall.arguments import SEARCH
from tools_app.recall.record import conversation_record, is_readable, one_line
from tools_app.recall.toolset import RecallTools
from tools_app.toolset import ToolInvocation

SESSIONS = "mochi://sessions/"
PAGE = 50
MOST_RESOURCE_BYTES = MEBIBYTE

_TEXT = "text/plain"
_ANNOTATIONS = {
    "readOnlyHint": True,
    "idempotentHint": True,
    "destructiveHint": False,
    "openWorldHint": False,
}
Method = Callable[[McpMessage], dict[str, Any]]


class McpService:
    """Answers the requests of MCP clients; keeps nothing between them.

    Args:
        recall: The tools.
        sessions: The resources.
        prompts: The prompts.
    """

    def __init__(
        self, recall: RecallTools, sessions: SessionManager, prompts: SystemPromptService
    ) -> None:
        self._recall = recall
        self._sessions = sessions
        self._prompts = prompts
        self._methods: Mapping[str, Method] = {
            "ping": lambda _: {},
            "initialize": _handshake,
            "server/discover": lambda _: {**_ABOUT, "supportedVersions": VERSIONS},
            "resources/list": self._list_resources,
            "resources/templates/list": lambda _: {"resourceTemplates": []},
            "resources/read": self._read_resource,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
        }

    async def answer(self, message: McpMessage) -> dict[str, Any]:
        """Return the result of a request.

        Raises:
            RpcError: There is no such method, tool, resource or prompt, or it can't be read.
        """
        try:
            if message.method == "tools/list":
                tools = (await self._recall.listing()).tools.values()
                return {"tools": [_described(tool.spec) for tool in tools]}
            if message.method == "tools/call":
                return await self._call_tool(message)
            if message.method not in self._methods:
                raise RpcError(METHOD_NOT_FOUND, f"There is no method {message.method[:100]!r}.")
            return await asyncio.to_thread(self._methods[message.method], message)
        except (ToolNotFound, ValidationFailed, SessionNotFound) as error:
            raise RpcError(INVALID_PARAMS, error.message) from error
        except MochiError as error:
            raise RpcError(INTERNAL_ERROR, error.message, mochi_code=error.code) from error

    async def _call_tool(self, message: McpMessage) -> dict[str, Any]:
        arguments = message.params.get("arguments") or {}
        call = ToolInvocation(name=message.text("name"), arguments=arguments)
        result = await self._recall.call_tool(call)
        if result.error_code == INVALID_ARGUMENTS:
            raise RpcError(INVALID_PARAMS, result.error_message or "")
        text = result.result if result.success else result.error_message
        return {"content": [{"type": "text", "text": text}], "isError": not result.success}

    def _list_resources(self, message: McpMessage) -> dict[str, Any]:
        cursor = message.text("cursor") if "cursor" in message.params else None
        page = self._sessions.list(limit=PAGE, cursor=cursor)
        resources = [
            {
                "uri": f"{SESSIONS}{session.session_id}",
                "name": one_line(session.title or session.preview or session.session_id),
                "mimeType": _TEXT,
            }
            for session in page.sessions
        ]
        after = {} if page.next_cursor is None else {"nextCursor": page.next_cursor}
        return {"resources": resources, **after}

    def _read_resource(self, message: McpMessage) -> dict[str, Any]:
        uri = message.text("uri")
        if not uri.startswith(SESSIONS):
            raise RpcError(INVALID_PARAMS, f"There is no resource {uri[:200]!r}.", uri=uri[:2000])
        session = self._sessions.get(uri.removeprefix(SESSIONS))
        messages = [message for message in session.messages if is_readable(message)]
        text = conversation_record(
            session.session_id,
            messages,
            range(len(messages)),
            most_bytes=MOST_RESOURCE_BYTES,
            message_bytes=MOST_RESOURCE_BYTES,
        )
        return {"contents": [{"uri": uri, "mimeType": _TEXT, "text": text}]}

    def _list_prompts(self, message: McpMessage) -> dict[str, Any]:  # noqa: ARG002 - as all
        named = self._named().items()
        return {"prompts": [{"name": name, "description": it.preview} for name, it in named]}

    def _get_prompt(self, message: McpMessage) -> dict[str, Any]:
        name = message.text("name")
        summary = self._named().get(name)
        if summary is None:
            raise RpcError(INVALID_PARAMS, f"There is no prompt {name[:100]!r}.")
        content = {"type": "text", "text": self._prompts.get(summary.filename).content}
        return {"description": summary.preview, "messages": [{"role": "user", "content": content}]}

    def _named(self) -> dict[str, PromptSummary]:
        """Return the prompts by their names without ending; of two, the first file."""
        files = reversed(self._prompts.list())
        return {summary.filename.rpartition(".")[0]: summary for summary in files}


_ABOUT = {"capabilities": CAPABILITIES, "instructions": INSTRUCTIONS}


def _handshake(message: McpMessage) -> dict[str, Any]:
    version = message.params.get("protocolVersion")
    version = version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
    return {**_ABOUT, "protocolVersion": version, "serverInfo": SERVER_INFO}


def _described(spec: ToolSpec) -> dict[str, Any]:
    """Return a tool; where a call comes from no session, it must name one."""
    schema = dict(spec.parameters)
    if spec.name != SEARCH:
        named = {**schema["properties"]["session_id"], "description": "the conversation"}
        schema |= {
            "properties": {**schema["properties"], "session_id": named},
            "required": ["session_id"],
        }
    return {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": schema,
        "annotations": _ANNOTATIONS,
    }
