"""Lists the prompts of MCP servers, and gets them with arguments filled in."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from sessions_app.errors import ValidationFailed
from tools_app.errors import ServerPromptNotFound, ToolServerUnavailable
from tools_app.mcp.limits import MAX_ENTRIES, MAX_LISTING_BYTES, MAX_MESSAGE_BYTES
from tools_app.mcp.remote import RemoteError, cause_of, mapping
from tools_app.mcp.results import json_text, result_of
from tools_app.mcp.server import ManagedServer
from tools_app.schemas import McpPromptOut, McpPromptTextOut

_LISTING_SECONDS = 60.0


async def list_prompts(server: ManagedServer) -> Sequence[McpPromptOut]:
    """Return the prompts of a server, as far as they can be understood.

    Raises:
        ToolServerUnavailable: It does not work now.
    """
    with _failures_told(server):
        return [prompt for raw in await list_entries(server, "prompts") if (prompt := _prompt(raw))]


async def get_prompt(
    server: ManagedServer, name: str, arguments: Mapping[str, str]
) -> Sequence[McpPromptTextOut]:
    """Return the messages of a prompt with its arguments filled in.

    Raises:
        ServerPromptNotFound: The server has no prompt of this name.
        ValidationFailed: An argument is missing, or is none of the prompt's.
        ToolServerUnavailable: It does not work now, or refuses.
    """
    prompts = {prompt.name: prompt for prompt in await list_prompts(server)}
    if name not in prompts:
        raise ServerPromptNotFound(server.name, name)
    known = prompts[name].arguments
    missing = [each.name for each in known if each.required and each.name not in arguments]
    unknown = arguments.keys() - {each.name for each in known}
    if missing or unknown:
        names = ", ".join(missing or sorted(unknown))
        fault = f"needs {names}" if missing else f"has no {names}"
        raise ValidationFailed(f"The prompt {name!r} {fault}.", field="arguments")
    with _failures_told(server):
        got = await server.ask("prompts/get", {"name": name, "arguments": dict(arguments)})
    messages = got.get("messages")
    return [_text(mapping(each)) for each in (messages if isinstance(messages, list) else ())]


async def list_entries(server: ManagedServer, kind: str) -> Sequence[Mapping[str, Any]]:
    """Return the first ``MAX_ENTRIES`` of a server's prompts or resources.

    A list that gets too large ends earlier, and one that takes too long fails.

    Raises:
        RemoteError: It was refused, or the server does not work now.
        TimeoutError: It took too long.
    """
    entries: list[Mapping[str, Any]] = []
    cursor: object = None
    left = MAX_LISTING_BYTES
    async with asyncio.timeout(_LISTING_SECONDS):
        while len(entries) < MAX_ENTRIES and left > 0:
            page = await server.ask(f"{kind}/list", {"cursor": cursor} if cursor else {})
            listed = page.get(kind)
            found = [mapping(entry) for entry in (listed if isinstance(listed, list) else ())]
            entries += found
            left -= len(await asyncio.to_thread(json_text, found, limit=MAX_MESSAGE_BYTES))
            cursor = page.get("nextCursor")
            if not found or not isinstance(cursor, str):
                break
    return entries[:MAX_ENTRIES]


@contextmanager
def _failures_told(server: ManagedServer) -> Iterator[None]:
    try:
        yield
    except (RemoteError, TimeoutError) as error:
        raise ToolServerUnavailable(server.name, cause_of(error)) from error


def _prompt(raw: Mapping[str, Any]) -> McpPromptOut | None:
    listed = raw.get("arguments")
    arguments = [
        {"required": False, **mapping(each)}
        for each in (listed if isinstance(listed, list) else ())
    ]
    try:
        return McpPromptOut.model_validate({**raw, "arguments": arguments})
    except ValidationError:
        return None


def _text(message: Mapping[str, Any]) -> McpPromptTextOut:
    role = "assistant" if message.get("role") == "assistant" else "user"
    content = result_of({"content": message.get("content")}, "prompt").result or ""
    return McpPromptTextOut(role=role, content=content)
