"""A scripted model server on a loopback port."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import openai
import pytest

from scripted_app.replies import BLOCK_END, BLOCK_START
from scripted_app.server import ScriptedModelServer


@pytest.fixture
async def server() -> AsyncIterator[ScriptedModelServer]:
    """Serve unpaced until the test ends."""
    server = ScriptedModelServer(words_per_second=0)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def http(server: ScriptedModelServer) -> AsyncIterator[aiohttp.ClientSession]:
    """Return a bare HTTP client of the server."""
    async with aiohttp.ClientSession(server.url) as session:
        yield session


@pytest.fixture
def scripted() -> Callable[..., dict[str, Any]]:
    """Return a maker of user messages that hold a block."""

    def message(**instruction: Any) -> dict[str, Any]:
        return {"role": "user", "content": BLOCK_START + json.dumps(instruction) + BLOCK_END}

    return message


@pytest.fixture
async def client(server: ScriptedModelServer) -> AsyncIterator[openai.AsyncOpenAI]:
    """Return the vendor's client of the server."""

    def connect() -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)

    # The first client of a process imports its HTTP stack, which reads files.
    async with await asyncio.to_thread(connect) as client:
        yield client
