"""What a request leaves in memory, and what becomes of connections when the server stops."""

import asyncio
import json
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from uvicorn.server import ServerState

from mochi_project.asgi_types import Receive, Scope, Send
from mochi_project.configuration.loading import MochiSettings
from mochi_project.exchange import Exchange
from mochi_project.guard.guard import Guard
from mochi_project.uvicorn_protocol.config import ServerConfig
from mochi_project.uvicorn_protocol.protocol import BoundedHttpToolsProtocol

pytestmark = pytest.mark.conformance


REQUEST = b"GET /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n\r\n"
Connect = Callable[[], Awaitable["Client"]]


class Protocol(BoundedHttpToolsProtocol):
    """Can be told to stop as soon as it has received something."""

    stop_after_next_piece = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.was_stopped = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.stop_after_next_piece:
            self.stop_after_next_piece = False
            self.shutdown()
            self.was_stopped.set()


class Client:
    """A connection, of which this test has both ends."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Protocol
    ) -> None:
        self.server = server
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> bytes:
        head = await self._reader.readuntil(b"\r\n\r\n")
        return head.splitlines()[0]

    async def rest(self) -> bytes:
        """Return what comes until the server closes the connection."""
        return await self._reader.read()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Open connections to a server behind a guard."""
    made: list[Protocol] = []
    clients: list[Client] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    guard = Guard(app, MochiSettings(_env_file=None))
    config = ServerConfig(guard, http=Protocol, lifespan="off", log_config=None)
    config.load()

    def protocol() -> Protocol:
        made.append(Protocol(config, ServerState(), {}))
        return made[-1]

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)

    async def open_one() -> Client:
        count = len(made)
        streams = await asyncio.open_connection(*server.sockets[0].getsockname())
        while len(made) == count or made[-1].transport is None:
            await asyncio.sleep(0)
        clients.append(Client(*streams, made[-1]))
        return clients[-1]

    yield open_one
    for client in clients:
        await client.close()
    server.close()


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


async def test_a_connection_that_waits_for_its_next_request_is_closed_at_once(
    connect: Connect,
) -> None:
    client = await connect()
    await client.send(REQUEST)
    assert b" 204 " in await client.answer()

    client.server.shutdown()

    assert client.server.transport.is_closing()
    assert await client.rest() == b""


async def test_the_first_request_of_a_new_connection_is_refused_and_may_be_repeated(
    connect: Connect,
) -> None:
    client = await connect()

    client.server.shutdown()
    assert not client.server.transport.is_closing()
    await client.send(REQUEST)

    answer = (await client.rest()).lower()
    assert answer.startswith(b"http/1.1 503 ")
    assert b"\r\nconnection: close\r\n" in answer
    assert b"\r\nretry-after: 5\r\n" in answer
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert (error["code"], error["details"]["retryable"]) == ("shutting_down", True)


async def test_a_request_of_which_a_part_has_come_is_refused_when_it_is_whole(
    connect: Connect,
) -> None:
    client = await connect()
    await client.send(REQUEST)
    assert b" 204 " in await client.answer()
    client.server.stop_after_next_piece = True

    await client.send(REQUEST[:20])
    await client.server.was_stopped.wait()
    await client.send(REQUEST[20:])

    assert (await client.rest()).startswith(b"HTTP/1.1 503 ")


async def test_a_new_connection_that_says_nothing_is_closed_after_a_moment(
    connect: Connect,
) -> None:
    client = await connect()
    client.server.shutdown()
    assert await client.rest() == b""


async def test_a_connection_that_was_accepted_too_late_is_told_like_the_others(
    connect: Connect,
) -> None:
    (await connect()).server.config.server_stops = True

    client = await connect()
    await client.send(REQUEST)

    assert (await client.rest()).startswith(b"HTTP/1.1 503 ")


async def test_a_request_that_is_being_answered_is_answered_and_ends_its_connection(
    connect: Connect,
) -> None:
    client = await connect()
    client.server.stop_after_next_piece = True
    await client.send(REQUEST)

    answer = await client.rest()
    assert answer.startswith(b"HTTP/1.1 204 ")
    assert b"connection: close" in answer
