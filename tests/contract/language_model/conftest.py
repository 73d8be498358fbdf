"""A scripted server, models that talk to it, and servers that misbehave."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import certifi
import pytest

from models_app.ollama.language_model import OllamaLanguageModel
from models_app.vendors.language_model import VendorLanguageModel
from scripted_app.server import ScriptedModelServer
from tests.contract.language_model.cases import Opener, Provider, Serve


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedModelServer]:
    server = ScriptedModelServer(words_per_second=0)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture(scope="session")
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with one authority; all that are known cost each client of Google's 50 ms."""
    end = "-----END CERTIFICATE-----\n"
    first = Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0]
    path = tmp_path_factory.mktemp("certificates") / "one.pem"
    path.write_text(first + end, encoding="utf-8")
    return path


@pytest.fixture
async def open_model(
    scripted: ScriptedModelServer, one_certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Opener]:
    """Open a provider's models on the scripted server; retries do not wait."""
    monkeypatch.setenv("SSL_CERT_FILE", str(one_certificate))
    monkeypatch.setattr("models_app.retries.BACKOFFS", ((0, 0.01), (0, 0.01)))
    opened: list[OllamaLanguageModel | VendorLanguageModel] = []

    def open_model(
        provider: Provider, url: str | None = None, **options: Any
    ) -> OllamaLanguageModel | VendorLanguageModel:
        opened.append(provider.open(url or scripted.url, **options))
        return opened[-1]

    yield open_model
    for model in opened:
        await model.aclose()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a bare server that reads a request's head and answers as told; returns its URL."""
    servers: list[asyncio.Server] = []

    async def start(answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> str:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.readuntil(b"\r\n\r\n")
                await answer(writer)
                await writer.drain()
            finally:
                writer.close()

        servers.append(await asyncio.start_server(handle, "127.0.0.1", 0))
        return f"http://127.0.0.1:{servers[-1].sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()
