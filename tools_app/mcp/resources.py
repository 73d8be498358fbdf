"""Reads the resources of MCP servers for models, which results have linked to.

Only these: see docs/decisions/0197.
"""

import asyncio

import msgspec

from sessions_app.decoding import convert_to
from sessions_app.errors import ValidationFailed
from tools_app.mcp.naming import ReadResource
from tools_app.mcp.prompts import list_entries
from tools_app.mcp.results import result_of
from tools_app.mcp.server import ManagedServer
from tools_app.toolset import Tool, ToolInvocation, ToolResult


async def use_resources(
    server: ManagedServer, tool: Tool, invocation: ToolInvocation
) -> ToolResult:
    """List the resources of a server, or read one that a result of the session links to.

    Raises:
        ValidationFailed: No result links to it.
        RemoteError: The server refused, or does not work now.
        TimeoutError: It took too long.
    """
    if tool.resources == "list":
        entries = await list_entries(server, "resources")
        blocks = [{**entry, "type": "resource_link"} for entry in entries]
    else:
        try:
            uri = convert_to(invocation.arguments, ReadResource).uri
        except msgspec.ValidationError as error:
            raise ValidationFailed(f"{error}.") from error
        if uri not in invocation.links:
            raise ValidationFailed(
                f"No result of {server.name!r} in this conversation links to {uri[:200]!r}. Give "
                "an address exactly as a result names it."
            )
        contents = (await server.ask("resources/read", {"uri": uri})).get("contents")
        contents = contents if isinstance(contents, list) else []
        blocks = [{"type": "resource", "resource": content} for content in contents]
    # In a thread: it may be megabytes.
    return await asyncio.to_thread(result_of, {"content": blocks}, "resource")
