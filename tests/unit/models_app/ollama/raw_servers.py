"""Servers that write raw bytes, each connection by a function of its own."""

import asyncio
from contextlib import asynccontextmanager

from models_app.ollama.http_connection import (
    request_bytes,
)
from models_app.ollama.http_pool import HttpPool

ASK = request_bytes("POST", "/x", host="h", headers={"A": "b"}, body=b"{}")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
KEEP_SECONDS = 60
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@asynccontextmanager
async def serving(*answers):
    """Serve connections in turn, each by a function of reader and writer, and yield a pool."""
    waiting = list(answers)
    running = set()

    async def serve(reader, writer):
        running.add(asyncio.current_task())
        try:
            await waiting.pop(0)(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pool = HttpPool("127.0.0.1", port, secure=False, connect_timeout=30, keep_seconds=KEEP_SECONDS)
    try:
        yield pool
    finally:
        pool.close()
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def request_of(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


def saying(*pieces, then=None):
    """Answer one request with these bytes, each in a write of its own."""

    async def answer(reader, writer):
        await request_of(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if then == "wait":
            await reader.read()

    return answer


async def body_of(connection, body=None):
    body = bytearray() if body is None else body
    while data := await connection.read():
        body += data
    return bytes(body)


async def answer_of(pool, silence_timeout):
    return await body_of(await pool.send(ASK, silence_timeout=silence_timeout))
