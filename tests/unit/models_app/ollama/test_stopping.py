"""Stopping a chat with Ollama, wherever it is; and asking whether the server is there."""

import asyncio
import socket

import pytest

from models_app.ollama.language_model import OllamaLanguageModel


@pytest.mark.parametrize("point", ["headers", "first line", "next line", "error body", "backoff"])
async def test_cancelling_at_any_point_closes_the_connection_at_once(
    ollama, fake, wire, point, monkeypatch
):
    if point == "backoff":
        monkeypatch.setattr("models_app.retries.BACKOFFS", ((60, 60),))
    waiting, gone = asyncio.Event(), asyncio.Event()

    async def answer(exchange):
        match point:
            case "first line":
                await exchange.begin_stream()
            case "next line":
                await exchange.begin_stream()
                await exchange.lines(wire.text("a"))
            case "error body":
                await exchange.send(b"HTTP/1.1 400 X\r\nContent-Length: 100\r\n\r\n{")
            case "backoff":
                await exchange.answer(503, {"error": "busy"})
        waiting.set()
        await exchange.client_gone()
        gone.set()

    fake.answers = [answer]
    turn = asyncio.create_task(wire.outcome_of(ollama, wire.request()))
    await waiting.wait()
    await wire.settle()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    if point != "backoff":  # by then the refusal is read to its end, and nothing runs there
        await asyncio.wait_for(gone.wait(), 20)


async def test_cancelling_while_the_connection_is_made_leaves_nothing_behind(wire):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        filler = [socket.socket() for _ in range(4)]
        for item in filler:
            item.setblocking(False)
            item.connect_ex(("127.0.0.1", port))
        model = OllamaLanguageModel(f"http://127.0.0.1:{port}")
        await model.ping()
        turn = asyncio.create_task(wire.outcome_of(model, wire.request()))
        await wire.settle()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await model.aclose()
        for item in filler:
            item.close()


async def test_ping_tells_whether_the_server_answers(ollama, fake):
    assert await ollama.ping() is True


async def test_ping_gives_a_silent_server_up(wire):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        model = OllamaLanguageModel(f"http://127.0.0.1:{silent.getsockname()[1]}")
        await model.warm_up()
        assert await model.ping() is False
        await model.aclose()
