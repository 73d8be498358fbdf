"""An MCP server written with the official SDK: over stdio, or over HTTP if given a port."""

import base64
import os
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolAnnotations,
)

server = MCPServer("sdk-server")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(destructive_hint=False))
async def count(steps: int, pause: float, ctx: Context) -> str:
    """Count, and tell how far that is."""
    for step in range(steps):
        await anyio.sleep(pause)
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    return "counted"


@server.tool()
async def wait(path: str) -> str:
    """Wait for ever, and write down what becomes of that."""
    Path(path).write_text("started")
    try:
        await anyio.sleep_forever()
    except BaseException:
        Path(path).write_text("cancelled")
        raise
    return ""


@server.tool()
async def learn(name: str, ctx: Context) -> str:
    """Get another tool."""
    server.add_tool(add, name=name)
    await ctx.notify_tools_changed()
    return "learnt"


@server.tool()
async def append(path: str, line: str) -> str:
    """Read a file, take a while, and write it back with one line more."""
    before = Path(path).read_text() if Path(path).exists() else ""
    await anyio.sleep(0.02)
    Path(path).write_text(f"{before}{line}\n")
    return f"wrote {line}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def draw(paths: list[str], fails: bool = False) -> CallToolResult:
    """Show files: the first as an image, the others as resources."""
    encoded = [base64.b64encode(Path(path).read_bytes()).decode() for path in paths]
    resources = [
        EmbeddedResource(resource=BlobResourceContents(uri=f"file://{path}", blob=data))
        for path, data in zip(paths[1:], encoded[1:], strict=True)
    ]
    return CallToolResult(
        content=[
            TextContent(text="Drawn:"),
            ImageContent(data=encoded[0], mime_type="image/png"),
            *resources,
        ],
        is_error=fails,
    )


@server.tool()
def environment() -> dict[str, str]:
    """Show the environment."""
    return dict(os.environ)


@server.resource("note://today")
def today() -> str:
    """Return what is to be done."""
    return "Water the plants."


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def link(uri: str, text: str = "") -> CallToolResult:
    """Name a resource, after a text."""
    return CallToolResult(content=[TextContent(text=text), ResourceLink(name="it", uri=uri)])


@server.prompt(title="Review a pull request")
def review(number: str, tone: str = "kind") -> str:
    """Review changes."""
    return f"Review number {number}, be {tone}."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
