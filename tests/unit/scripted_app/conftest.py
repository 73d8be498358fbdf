"""A scripted model server on a loopback port."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
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
