"""With which windows models are loaded, and what is made of it when the server says it oddly."""

import asyncio
import json

import pytest

from models_app.errors import OllamaUnreachable
from models_app.language_model import ModelRequest
from models_app.ollama import loaded_models
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.ollama.loaded_models import ASK_AGAIN_SECONDS, LoadedModels
from models_app.window_sizes import LoadedWindow
from sessions_app.messages import UserMessage


class Server:
    """What a server has loaded, and how often it was asked."""

    def __init__(self):
        self.windows = {}
        self.body = None
        self.error = None
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.now = 1000.0
        self.loaded = LoadedModels(self.fetch, clock=lambda: self.now)

    async def fetch(self):
        self.asked += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        models = [
            {"name": name, "context_length": window, "size_vram": 1, "details": {}}
            for name, window in self.windows.items()
        ]
        return self.body or json.dumps({"models": models}).encode()


@pytest.fixture
def server():
    return Server()


async def test_a_name_without_a_tag_is_the_latest(server):
    server.windows = {"qwen3:14b": 16384, "llama3:latest": 4096, "hf.co/u/m:Q4": 2048}
    assert await server.loaded.window_of("qwen3:14b") == LoadedWindow(window=16384)
    assert await server.loaded.window_of("llama3") == LoadedWindow(window=4096)
    assert await server.loaded.window_of("hf.co/u/m:Q4") == LoadedWindow(window=2048)
    assert await server.loaded.window_of("hf.co/u/m") == LoadedWindow(window=None)


@pytest.mark.parametrize(
    "body",
    [
        b"404 page not found",
        b'{"models": 1}',
        b"[]",
        b"\xff",
        b'{"models": [{"context_length": 1}]}',
        b'{"models": [{"name": "m", "context_length": "4096"}]}',
        b'{"models": [{"name": "m", "context_length": %d}]}' % 10**30,
        b'{"models": [{"name": "m", "details": ' + b"[" * 100_000,
    ],
)
async def test_an_answer_that_is_no_list_says_nothing(server, body):
    server.body = body
    assert await server.loaded.window_of("m") is None


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"models": [{"name": "m"}]}', b'{"models": [{"name":"m","context_length":0}]}'],
)
async def test_a_list_without_a_window_is_one_of_nothing_loaded(server, body):
    server.body = body
    assert await server.loaded.window_of("m") == LoadedWindow(window=None)


async def test_a_server_that_does_not_answer_is_not_asked_again_for_a_while(server, monkeypatch):
    monkeypatch.setattr(loaded_models, "LOOK_UP_SECONDS", 0.01)
    server.gate.clear()
    assert await server.loaded.window_of("m") is None
    server.gate.set()
    server.windows = {"m:latest": 4096}
    assert await server.loaded.window_of("m") is None
    assert server.asked == 1

    server.now += ASK_AGAIN_SECONDS
    assert await server.loaded.window_of("m") == LoadedWindow(window=4096)


async def test_a_server_that_is_not_there_is_no_error(server):
    server.error = OllamaUnreachable("gone")
    assert await server.loaded.window_of("m") is None


async def test_turns_that_begin_together_share_one_request(server):
    server.windows = {"m:latest": 4096}
    server.gate.clear()
    looking = [asyncio.create_task(server.loaded.window_of("m")) for _ in range(5)]
    await asyncio.sleep(0)
    looking[0].cancel()
    await asyncio.sleep(0)
    server.gate.set()
    assert await asyncio.gather(*looking[1:]) == [LoadedWindow(window=4096)] * 4
    assert server.asked == 1
    await server.loaded.window_of("m")
    assert server.asked == 2


async def test_what_ollama_gives_without_a_window_is_its_default(server):
    server.loaded.note("m", None)
    server.windows = {"m:latest": 32768}
    assert await server.loaded.window_of("m") == LoadedWindow(window=32768, default=32768)
    server.windows = {}
    assert await server.loaded.window_of("m") == LoadedWindow(window=None, default=32768)
    assert await server.loaded.window_of("other") == LoadedWindow(window=None)


async def test_a_server_that_reports_a_multiple_of_what_was_sent_is_never_sent_more(server):
    sent = 8192
    for _ in range(4):
        server.loaded.note("m", sent)
        server.windows = {"m:latest": 4 * sent}
        sent = (await server.loaded.window_of("m")).window
        assert sent == 8192


async def test_a_server_that_reports_what_was_sent_is_believed_a_multiple_later(server):
    server.loaded.note("m", 8192)
    server.windows = {"m:latest": 8192}
    assert (await server.loaded.window_of("m")).window == 8192
    server.windows = {"m:latest": 16384}  # another process of ours grew it
    assert (await server.loaded.window_of("m")).window == 16384


async def test_the_window_of_an_accepted_request_is_noted(fake, wire):
    fake.answers = [wire.stream_of(wire.text("Hi"), wire.DONE)]
    fake.loaded = {"m:latest": 16384}
    model = OllamaLanguageModel(fake.url)
    try:
        message = UserMessage(content="Hi", message_id="1", timestamp="t")
        request = ModelRequest(model="m", messages=[message], context_window=8192)
        await wire.outcome_of(model, request)
        loaded = await model.loaded_models()
        assert await loaded.window_of("m") == LoadedWindow(window=8192)  # half of it
        assert await loaded.all() == {"m:latest": 16384}
    finally:
        await model.aclose()


async def test_a_server_without_the_list_says_nothing(fake):
    fake.paths_missing = {"/api/ps"}
    model = OllamaLanguageModel(fake.url)
    try:
        assert await (await model.loaded_models()).all() is None
    finally:
        await model.aclose()
