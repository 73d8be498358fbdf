"""What a chat with Ollama yields when the wire behaves."""

import asyncio
import base64
from contextlib import aclosing

import pytest

from models_app.language_model import (
    CallDelta,
    Finished,
    TextDelta,
    ThinkingDelta,
)
from models_app.ollama.language_model import OllamaLanguageModel
from sessions_app.messages import ToolCall


async def deltas_of(model, request):
    async with aclosing(model.stream(request)) as batches:
        return [delta async for batch in batches for delta in batch]


async def test_text_thinking_calls_and_the_end_come_in_order(ollama, fake, wire):
    call = {"id": "call_1", "function": {"index": 0, "name": "add", "arguments": {"a": 1}}}
    fake.answers = [
        wire.stream_of(
            {"message": {"role": "assistant", "content": "", "thinking": "Hm"}, "done": False},
            wire.text("Hel"),
            wire.text("lo"),
            {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False},
            wire.DONE,
        )
    ]
    assert await deltas_of(ollama, wire.request()) == [
        ThinkingDelta("Hm"),
        TextDelta("Hel"),
        TextDelta("lo"),
        CallDelta(ToolCall(id="call_1", name="add", arguments={"a": 1})),
        Finished("stop", 21, 41),
    ]


async def test_what_one_read_brings_is_one_batch(ollama, fake, wire):
    async def answer(exchange):
        lines = b"".join(b'{"message":{"content":"%d"}}\n' % n for n in range(100))
        done = b'{"done":true}\n'
        await exchange.answer(200, lines + done, content_type="application/x-ndjson")

    fake.answers = [answer]
    async with aclosing(ollama.stream(wire.request())) as batches:
        counts = [len(batch) async for batch in batches]
    assert sum(counts) == 101
    assert len(counts) <= 2


async def test_a_character_split_over_reads_arrives_whole(ollama, fake, wire):
    async def answer(exchange):
        await exchange.begin_stream()
        line = '{"message":{"content":"naïve 🍡"},"done":false}\n{"done":true}\n'.encode()
        for byte in line:
            await exchange.chunk(bytes([byte]))
            await asyncio.sleep(0)
        await exchange.end_stream()

    fake.answers = [answer]
    assert await deltas_of(ollama, wire.request()) == [TextDelta("naïve 🍡"), Finished()]


async def test_a_delta_never_waits_for_the_next(ollama, fake, wire):
    shown = asyncio.Event()

    async def answer(exchange):
        await exchange.begin_stream()
        await exchange.lines(wire.text("first"))
        await shown.wait()
        await exchange.lines(wire.DONE)
        await exchange.end_stream()

    fake.answers = [answer]
    async with aclosing(ollama.stream(wire.request())) as batches:
        assert await anext(batches) == [TextDelta("first")]
        shown.set()
        assert [delta async for batch in batches for delta in batch] == [Finished("stop", 21, 41)]


async def test_calls_on_the_final_line_count(ollama, fake, wire):
    calls = [{"function": {"name": "now", "arguments": {}}}] * 2
    fake.answers = [
        wire.stream_of(
            {"message": {"content": "", "tool_calls": calls}, "done": True, "done_reason": "stop"}
        )
    ]
    first, second, last = await deltas_of(ollama, wire.request())
    assert last == Finished("stop")
    assert first.call.name == second.call.name == "now"
    assert first.call.id != second.call.id
    assert first.call.id.startswith("call_")
    assert len(first.call.id) == len("call_") + 8


async def test_a_connection_serves_one_turn_after_the_other(ollama, fake, wire):
    fake.answers = [wire.stream_of(wire.text("hi"), wire.DONE)]
    for _ in range(5):
        await deltas_of(ollama, wire.request())
    assert fake.connections == 1


async def test_a_connection_is_kept_when_the_reader_leaves_after_the_end(ollama, fake, wire):
    fake.answers = [wire.stream_of(wire.text("hi"), wire.DONE)]
    for _ in range(3):
        async with aclosing(ollama.stream(wire.request())) as batches:
            async for batch in batches:
                if isinstance(batch[-1], Finished):
                    break
    assert fake.connections == 1


async def test_the_end_does_not_wait_for_a_server_that_keeps_the_body_open(ollama, fake, wire):
    async def answer(exchange):
        await exchange.begin_stream()
        await exchange.lines(wire.DONE)
        await exchange.client_gone()

    fake.answers = [answer]
    assert await deltas_of(ollama, wire.request()) == [Finished("stop", 21, 41)]


async def test_closing_the_stream_closes_the_connection_at_once(ollama, fake, wire):
    gone = asyncio.Event()

    async def answer(exchange):
        await exchange.begin_stream()
        await exchange.lines(wire.text("a"))
        await exchange.client_gone()
        gone.set()

    fake.answers = [answer]
    async with aclosing(ollama.stream(wire.request())) as batches:
        await anext(batches)
    await asyncio.wait_for(gone.wait(), 20)


async def test_many_streams_run_at_once(ollama, fake, wire):
    everyone = asyncio.Barrier(150)

    async def answer(exchange):
        await everyone.wait()
        await wire.stream_of(wire.text("hi"), wire.DONE)(exchange)

    fake.answers = [answer]
    answers = await asyncio.gather(*(deltas_of(ollama, wire.request()) for _ in range(150)))
    assert all(len(answer) == 2 for answer in answers)


async def test_credentials_go_into_a_header_and_are_never_shown(fake, wire):
    fake.answers = [wire.stream_of(wire.DONE)]
    fake.models = {"m:latest": wire.shown("completion")}
    model = OllamaLanguageModel(fake.url.replace("http://", "http://ann:s%40crit@"))
    try:
        assert model.public_host == fake.url
        await deltas_of(model, wire.request())
        await model.describe("m")
    finally:
        await model.aclose()
    expected = f"Basic {base64.b64encode(b'ann:s@crit').decode()}"
    assert {exchange.headers["authorization"] for exchange in fake.exchanges} == {expected}


async def test_a_proxy_variable_is_not_obeyed(fake, wire, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    fake.answers = [wire.stream_of(wire.DONE)]
    fake.models = {"m:latest": wire.shown("completion")}
    model = OllamaLanguageModel(fake.url)
    try:
        assert await deltas_of(model, wire.request()) == [Finished("stop", 21, 41)]
        assert (await model.describe("m")).name == "m:latest"
    finally:
        await model.aclose()


async def test_a_request_of_several_megabytes_is_sent(ollama, fake, wire):
    fake.answers = [wire.stream_of(wire.DONE)]
    await deltas_of(ollama, wire.request(content="x" * 3_000_000))
    assert len(fake.chats[0].json["messages"][0]["content"]) == 3_000_000


async def test_a_model_can_be_used_again_after_it_was_closed(ollama, fake, wire):
    fake.answers = [wire.stream_of(wire.DONE)]
    await deltas_of(ollama, wire.request())
    await ollama.aclose()
    await ollama.aclose()
    await deltas_of(ollama, wire.request())
    assert fake.connections == 2


@pytest.mark.parametrize(
    ("options", "sent"), [({}, "1h"), ({"keep_alive": 0}, 0), ({"keep_alive": None}, "1h")]
)
async def test_the_servers_keep_alive_is_sent_where_a_request_has_none(fake, wire, options, sent):
    fake.answers = [wire.stream_of(wire.text("Hello"), wire.DONE)]
    model = OllamaLanguageModel(fake.url, keep_alive="1h")

    await deltas_of(model, wire.request(options=options))
    await model.aclose()

    assert fake.chats[-1].json["keep_alive"] == sent
