"""An Ollama made of bare sockets, so that tests can break the wire in any way they like."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from models_app.language_model import ModelRequest, Retrying
from models_app.ollama.language_model import OllamaLanguageModel
from sessions_app.messages import UserMessage


@dataclass
class Exchange:
    """One request that came in, and the means to answer it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def begin_stream(self) -> None:
        await self.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def lines(self, *values: Any) -> None:
        for value in values:
            await self.chunk(json.dumps(value).encode() + b"\n")

    async def end_stream(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def answer(
        self, status: int, body: bytes | Any, *, content_type: str = "application/json", extra=b""
    ) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.send(
            b"HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n%s"
            % (status, content_type.encode(), len(data), extra, data)
        )

    async def reset(self) -> None:
        """Break the connection so that the other side gets ECONNRESET."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def hang_up(self) -> None:
        self.writer.close()

    async def client_gone(self) -> None:
        """Wait until the client closes its side."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass


Answer = Callable[[Exchange], Awaitable[None]]


def text(content: str) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": content}, "done": False}


DONE = {
    "model": "m",
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 21,
    "eval_count": 41,
}


@dataclass
class FakeOllama:
    """A server whose ``/api/chat`` does what ``answers`` say, one after the other.

    The last answer is repeated. Models are ``{name: show reply}``; tags are made from them.
    """

    port: int = 0
    answers: list[Answer] = field(default_factory=list)
    models: dict[str, Any] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    loaded: dict[str, int] = field(default_factory=dict)
    paths_missing: set[str] = field(default_factory=set)
    connections: int = 0
    sockets: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def chats(self) -> list[Exchange]:
        return [item for item in self.exchanges if item.path == "/api/chat"]

    def asked(self, path: str) -> int:
        return sum(item.path == path for item in self.exchanges)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.sockets.append(writer)
        try:
            while exchange := await _read_request(reader, writer):
                self.exchanges.append(exchange)
                await self._answer(exchange)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _answer(self, exchange: Exchange) -> None:
        match exchange.path:
            case path if path in self.paths_missing:
                await exchange.answer(404, b"404 page not found", content_type="text/plain")
            case "/api/chat":
                turn = min(len(self.chats), len(self.answers)) - 1
                await self.answers[turn](exchange)
            case "/api/version":
                await exchange.answer(200, {"version": "0.0.0"})
            case "/api/ps":
                models = [{"name": n, "context_length": it} for n, it in self.loaded.items()]
                await exchange.answer(200, {"models": models})
            case "/api/tags":
                await exchange.answer(200, {"models": [self._tag(name) for name in self.models]})
            case "/api/show":
                await self._show(exchange)
            case _:
                await exchange.answer(404, b"404 page not found", content_type="text/plain")

    def _tag(self, name: str) -> dict[str, Any]:
        digest = self.digests.get(name, f"digest-of-{name}")
        return {"name": name, "model": name, "size": 9_048_200_000, "digest": digest}

    async def _show(self, exchange: Exchange) -> None:
        name = exchange.json["model"]
        shown = self.models.get(name) or self.models.get(f"{name}:latest")
        if shown is None:
            await exchange.answer(404, {"error": f"model '{name}:latest' not found"})
        elif isinstance(shown, int):
            await exchange.answer(shown, {"error": "the disk is on fire"})
        else:
            await exchange.answer(200, shown)


async def _read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Exchange | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    start, *fields = head.rstrip("\r\n").split("\r\n")
    method, path, _ = start.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Exchange(method, path, headers, body, reader, writer)


def shown(*capabilities: str, context_length: int | None = 40960) -> dict[str, Any]:
    """What /api/show answers for a model."""
    facts: dict[str, Any] = {"general.architecture": "qwen3"}
    if context_length is not None:
        facts["qwen3.context_length"] = context_length
    return {
        "details": {
            "format": "gguf",
            "family": "qwen3",
            "parameter_size": "14.8B",
            "quantization_level": "Q4_K_M",
        },
        "model_info": facts,
        "capabilities": list(capabilities),
    }


@asynccontextmanager
async def running(fake: FakeOllama) -> AsyncIterator[FakeOllama]:
    server = await asyncio.start_server(fake.serve, "127.0.0.1", fake.port, limit=2**16)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()
        for writer in fake.sockets:
            writer.transport.abort()
        await asyncio.sleep(0)


class Outcome:
    def __init__(self):
        self.deltas = []
        self.error = None

    @property
    def retries(self):
        return [delta for delta in self.deltas if isinstance(delta, Retrying)]


async def settle():
    """Let the loop turn until what is on its way over loopback has arrived."""
    for _ in range(200):
        await asyncio.sleep(0)


async def outcome_of(model, request):
    outcome = Outcome()
    async with aclosing(model.stream(request)) as batches:
        try:
            async for batch in batches:
                outcome.deltas += batch
        except Exception as error:
            outcome.error = error
    return outcome


class Wire:
    """What the tests of the providers share."""

    DONE = DONE
    text = staticmethod(text)
    shown = staticmethod(shown)
    running = staticmethod(running)
    settle = staticmethod(settle)
    outcome_of = staticmethod(outcome_of)

    @staticmethod
    def stream_of(*lines: Any) -> Answer:
        """Answer 200 with these lines and a proper end."""

        async def answer(exchange: Exchange) -> None:
            await exchange.begin_stream()
            await exchange.lines(*lines)
            await exchange.end_stream()

        return answer

    @staticmethod
    def refusal(status: int, body: Any, **more: Any) -> Answer:
        """Answer with an error status."""

        async def answer(exchange: Exchange) -> None:
            await exchange.answer(status, body, **more)

        return answer

    @staticmethod
    def request(model: str = "m", content: str = "Hello!", **more: Any) -> ModelRequest:
        message = UserMessage(
            content=content, message_id="1", timestamp="2026-11-21T00:00:00+00:00"
        )
        return ModelRequest(model=model, messages=[message], **more)


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
async def fake() -> AsyncIterator[FakeOllama]:
    async with running(FakeOllama()) as server:
        yield server


@pytest.fixture
async def ollama(fake: FakeOllama) -> AsyncIterator[OllamaLanguageModel]:
    model = OllamaLanguageModel(fake.url, silence_timeout=30, connect_timeout=30)
    yield model
    await model.aclose()
