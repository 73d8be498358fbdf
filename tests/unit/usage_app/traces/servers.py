"""A small MCP server over HTTP, in the test's own event loop, that notes what it is sent."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TOOL = {"name": "run", "description": "Run.", "inputSchema": {"type": "object"}}


@dataclass
class McpServer:
    """What the server was sent: the message and the headers of each request.

    ``asked`` is set with the first call, which is answered once ``released`` is set.
    """

    url: str = ""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    received: list[tuple[Mapping[str, Any], Mapping[str, str]]] = field(default_factory=list)

    def calls(self) -> list[tuple[Mapping[str, Any], Mapping[str, str]]]:
        return [each for each in self.received if each[0]["method"] == "tools/call"]

    async def answer(self, request: web.Request) -> web.Response:
        if request.method != "POST":
            return web.Response(status=405 if request.method == "GET" else 200)
        message = await request.json()
        self.received.append(
            (message, {name.lower(): value for name, value in request.headers.items()})
        )
        if "id" not in message:
            return web.Response(status=202)
        envelope = {"jsonrpc": "2.0", "id": message["id"]}
        method = message["method"]
        if method == "initialize":
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "small", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": [TOOL]}
        elif method == "tools/call":
            self.asked.set()
            await self.released.wait()
            result = {"content": [{"type": "text", "text": "ran"}]}
        else:
            error = {"code": -32601, "message": "no such method"}
            return web.json_response({**envelope, "error": error})
        return web.json_response({**envelope, "result": result})


@asynccontextmanager
async def mcp_server() -> AsyncIterator[McpServer]:
    """Serve until the block is left."""
    server = McpServer()
    server.released.set()
    app = web.Application()
    app.router.add_route("*", "/mcp", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        server.url = f"http://{host}:{port}/mcp"
        yield server
    finally:
        await runner.cleanup()
