"""The scripted server over real sockets: lifetime, pacing, faults, what it saw."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from scripted_app.replies import CHUNK_WORDS
from scripted_app.sending import Pace
from scripted_app.server import ScriptedModelServer

Scripted = Callable[..., dict[str, Any]]
ROUTES = {
    "/api/chat": "qwen3:14b",
    "/v1/chat/completions": "qwen3:14b",
}
FOUR = [{"text_message": {"text": ["a", "b", "c", "d"]}}]


def body(*messages: dict[str, Any], stream: bool = True, **rest: Any) -> dict[str, Any]:
    return {"model": "qwen3:14b", "messages": messages, "stream": stream, **rest}


async def read_frame(reply: aiohttp.ClientResponse) -> bytes:
    """Return the next line that is not blank; raise where the connection was cut."""
    while not (line := (await reply.content.readline()).strip()):
        if reply.content.at_eof():
            raise EOFError
    return line


@pytest.mark.parametrize("path", ROUTES)
async def test_stop_is_immediate_with_open_streams_and_frees_the_port(
    path: str, scripted: Scripted
) -> None:
    server = ScriptedModelServer()
    await server.start()
    slow = body(scripted(words_per_second=0.01, messages=FOUR))
    async with aiohttp.ClientSession(server.url) as http:
        replies = [await http.post(path, json=slow) for _ in range(5)]
        port = int(server.url.rpartition(":")[2])
        assert server.open_streams == 5
        async with asyncio.timeout(20):  # the answers would take minutes
            await server.stop()
        for reply in replies:
            with pytest.raises(aiohttp.ClientPayloadError):
                await reply.read()
            reply.close()
    again = ScriptedModelServer(port=port)
    await again.start()
    await again.stop()


async def test_a_server_that_is_not_running_has_no_url_and_stops_without_effect() -> None:
    server = ScriptedModelServer()
    await server.stop()
    with pytest.raises(RuntimeError):
        _ = server.url


async def test_a_taken_port_is_an_error(server: ScriptedModelServer) -> None:
    other = ScriptedModelServer(port=int(server.url.rpartition(":")[2]))
    with pytest.raises(OSError, match="address already in use"):
        await other.start()
    await other.stop()


@pytest.mark.parametrize("path", ROUTES)
async def test_a_client_that_leaves_ends_its_stream_at_once(
    path: str, server: ScriptedModelServer, http: aiohttp.ClientSession, scripted: Scripted
) -> None:
    reply = await http.post(path, json=body(scripted(words_per_second=0.01, messages=FOUR)))
    await reply.content.readline()
    await server.wait_for_open_streams(1)
    reply.close()
    async with asyncio.timeout(20):
        await server.wait_for_open_streams(0)


async def test_a_client_that_leaves_during_the_silence_ends_it(
    server: ScriptedModelServer, http: aiohttp.ClientSession, scripted: Scripted
) -> None:
    asked = asyncio.ensure_future(http.post("/api/chat", json=body(scripted(stall_seconds=600))))
    await server.wait_for_open_streams(1)
    asked.cancel()
    async with asyncio.timeout(20):
        await server.wait_for_open_streams(0)


async def test_chunks_come_at_the_pace_on_an_absolute_schedule(
    http: aiohttp.ClientSession, scripted: Scripted
) -> None:
    loop = asyncio.get_running_loop()
    entry = [{"text_message": {"length": 25}}]
    reply = await http.post("/api/chat", json=body(scripted(words_per_second=100, messages=entry)))
    began = loop.time()
    arrivals = [loop.time() - began async for line in reply.content if b'"content":"' in line]
    # 5 chunks of 5 words: the last is due 4 x 50 ms after the first.
    assert arrivals[4] >= 0.19


async def test_a_chunk_that_is_late_makes_no_later_one_late(
    pass_time: Callable[[float], None],
) -> None:
    pace = Pace(words_per_second=CHUNK_WORDS / 60)
    await pace.chunk()
    pass_time(4 * 60)
    async with asyncio.timeout(30):
        for _ in range(4):
            await pace.chunk()


async def test_a_reply_that_is_not_streamed_takes_as_long(
    http: aiohttp.ClientSession, scripted: Scripted
) -> None:
    loop = asyncio.get_running_loop()
    entry = [{"text_message": {"length": 15}}]
    began = loop.time()
    await http.post(
        "/api/chat", json=body(scripted(words_per_second=100, messages=entry), stream=False)
    )
    assert loop.time() - began >= 0.09


async def test_the_servers_own_pace_counts_without_a_block() -> None:
    server = ScriptedModelServer(words_per_second=5)
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as http:
            asked = body({"role": "user", "content": "Hello!"})
            async with http.post("/api/chat", json=asked) as reply:
                await reply.content.readline()
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await reply.content.readline()
    finally:
        await server.stop()


@pytest.mark.parametrize("path", ROUTES)
async def test_a_connection_is_cut_after_the_chunks_that_were_sent(
    path: str, http: aiohttp.ClientSession, scripted: Scripted
) -> None:
    reply = await http.post(path, json=body(scripted(drop_after=2, messages=FOUR)))
    for _ in range(2):
        assert b'"content":"' in await read_frame(reply)
    with pytest.raises(aiohttp.ClientPayloadError):
        await read_frame(reply)
    reply.close()


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_connection_cut_before_the_first_chunk_gives_no_answer(
    path: str, stream: bool, http: aiohttp.ClientSession, scripted: Scripted
) -> None:
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await http.post(path, json=body(scripted(drop_after=0), stream=stream))


@pytest.mark.parametrize("path", ROUTES)
async def test_a_malformed_line_comes_in_mid_stream_and_the_stream_goes_on(
    path: str, http: aiohttp.ClientSession, scripted: Scripted
) -> None:
    reply = await http.post(path, json=body(scripted(malformed=True, messages=FOUR)))
    lines = [line.removeprefix(b"data: ") for line in (await reply.read()).splitlines() if line]
    broken = []
    for number, line in enumerate(lines):
        try:
            json.loads(line)
        except ValueError:
            broken.append(number)
    assert broken[0] == 2
    assert broken[1:] == ([len(lines) - 1] if lines[-1] == b"[DONE]" else [])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/chat", {"error": "ouch"}),
        (
            "/v1/chat/completions",
            {"error": {"message": "ouch", "type": "api_error", "param": None, "code": None}},
        ),
    ],
)
async def test_an_error_line_ends_the_stream_without_its_final_line(
    path: str, expected: dict[str, Any], http: aiohttp.ClientSession, scripted: Scripted
) -> None:
    asked = scripted(error_line="ouch", messages=FOUR)
    reply = await http.post(path, json=body(asked))
    lines = [line.removeprefix(b"data: ") for line in (await reply.read()).splitlines() if line]
    assert reply.status == 200
    assert len(lines) == 3
    assert json.loads(lines[-1]) == expected
    whole = await http.post(path, json=body(asked, stream=False))
    assert (whole.status, await whole.json()) == (500, expected)


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [401, 429, 503])
async def test_a_status_refuses_before_the_first_byte(
    path: str, stream: bool, status: int, http: aiohttp.ClientSession, scripted: Scripted
) -> None:
    reply = await http.post(path, json=body(scripted(status=status), stream=stream))
    assert reply.status == status
    assert reply.content_type == "application/json"
    assert (await reply.json())["error"]


async def test_silence_comes_before_the_headers_or_after_some_chunks(
    http: aiohttp.ClientSession, scripted: Scripted
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    reply = await http.post("/api/chat", json=body(scripted(stall_seconds=0.2, messages=FOUR)))
    assert loop.time() - began >= 0.19
    reply.close()
    asked = scripted(stall_seconds=600, stall_after=2, messages=FOUR)
    reply = await http.post("/api/chat", json=body(asked))
    await reply.content.readline()
    await reply.content.readline()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await reply.content.readline()
    reply.close()


async def test_the_last_hundred_requests_are_kept(
    server: ScriptedModelServer, http: aiohttp.ClientSession
) -> None:
    for number in range(101):
        await http.post("/api/chat", json={"model": "nope", "messages": [], "n": number})
    assert [request["n"] for request in server.requests] == list(range(1, 101))


async def test_the_log_names_the_rule_and_holds_no_prompt(
    http: aiohttp.ClientSession, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="models_app"):
        reply = await http.post("/api/chat", json=body({"role": "user", "content": "secret"}))
        await reply.read()
        reply = await http.post("/v1/chat/completions", json=body(scripted(messages=FOUR)))
        await reply.read()
    first, second = (record.getMessage() for record in caplog.records)
    assert "fallback" in first
    assert "instruction" in second
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/", 200, "Ollama is running"),
        ("HEAD", "/", 200, ""),
        ("GET", "/nowhere", 404, "404 page not found"),
        ("POST", "/api/generate", 404, "404 page not found"),
        ("GET", "/api/chat", 405, "405 method not allowed"),
    ],
)
async def test_other_paths_answer_in_plain_text_as_ollama_does(
    method: str, path: str, status: int, text: str, http: aiohttp.ClientSession
) -> None:
    reply = await http.request(method, path)
    assert (reply.status, reply.content_type, await reply.text()) == (status, "text/plain", text)


@pytest.mark.parametrize("stream", [True, False])
async def test_raw_texts_are_sent_as_they_are_and_nothing_else(
    http: aiohttp.ClientSession, scripted: Callable[..., dict[str, Any]], stream: bool
) -> None:
    message = scripted(raw=["one\n", "{two"])
    async with http.post(
        "/v1/chat/completions", json={"messages": [message], "stream": stream}
    ) as answer:
        assert (answer.status, await answer.text()) == (200, "one\n{two")
