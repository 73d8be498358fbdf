"""What a request leaves in memory: nothing that only a collection of garbage would find."""

import asyncio
import weakref
from typing import Any

import pytest
from uvicorn.server import ServerState

from mochi_project.exchange import Exchange
from mochi_project.uvicorn_protocol.config import ServerConfig
from mochi_project.uvicorn_protocol.protocol import BoundedHttpToolsProtocol

pytestmark = pytest.mark.conformance


@pytest.mark.usefixtures("uncollected")
async def test_a_request_that_was_answered_is_gone_without_a_collection() -> None:
    requests: list[weakref.ref[Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert Exchange.of(scope) is not None
        requests.append(weakref.ref(receive.__self__))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    config = ServerConfig(app, http=BoundedHttpToolsProtocol, lifespan="off", log_config=None)
    config.load()
    server = await asyncio.get_running_loop().create_server(
        lambda: BoundedHttpToolsProtocol(config, ServerState(), {}), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    for _ in range(3):
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b" 204 " in await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    server.close()

    assert [request() for request in requests[:2]] == [None, None]  # its protocol has the last one
