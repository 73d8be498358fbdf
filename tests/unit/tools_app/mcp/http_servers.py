"""Servers over HTTP that answer as a test says."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Answer = Callable[[str, dict, dict[str, str]], Awaitable[bytes] | bytes]


def older_server(call):
    """Answer as a server of 2025 does, in plain JSON."""

    def answer(method, message, headers):
        if method != "POST":
            return reply(405 if method == "GET" else 200, b"")
        if "id" not in message:
            return reply(202, b"")
        more = {}
        if message["method"] == "initialize":
            more = {"mcp-session-id": "s"}
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"},
            }
        elif message["method"] == "tools/list":
            result = {"tools": [{"name": "run", "inputSchema": {"type": "object"}}]}
        elif message["method"] == "tools/call":
            result = call()
            if result is None:
                return reply(404, b"")
            if isinstance(result, bytes):
                return result
        else:
            return reply(400, b"")
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        return reply(200, body.encode(), more)

    return answer


def reply(status, body, headers=None):
    lines = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Whatever\r\n{head}Connection: close\r\n\r\n".encode() + body


@asynccontextmanager
async def listening(answer: Answer) -> AsyncIterator[str]:
    """Answer each request with bytes, and hang up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *rest = head.strip().split("\r\n")
            method, path, _ = first.split()
            headers = {
                name.lower(): value for name, value in (line.split(": ", 1) for line in rest)
            }
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            answered = answer(method, json.loads(body or b"{}"), {**headers, ":path": path})
            writer.write(answered if isinstance(answered, bytes) else await answered)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()
