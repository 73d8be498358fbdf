"""Answers that are not what they should be."""

import asyncio
import contextlib
import json
from contextlib import aclosing
from typing import Any

import pytest

from models_app.errors import (
    ModelError,
    NetworkError,
    ServiceUnavailable,
)
from models_app.language_model import (
    Delta,
    ModelRequest,
)
from models_app.ollama import replies
from models_app.vendors import http_client
from scripted_app.server import ScriptedModelServer
from tests.contract.language_model.cases import (
    MINE,
    NOW,
    Opener,
    Provider,
    Serve,
    ask,
    block,
    calls,
    calls_of,
    end_of,
    every_provider,
    every_vendor,
    text_of,
    user,
)


@every_provider
async def test_a_redirect_is_not_followed(
    provider: Provider, open_model: Opener, serve: Serve, scripted: ScriptedModelServer
) -> None:
    async def redirect(writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 307 X\r\nLocation: %s/v1/chat/completions\r\nContent-Length: 0\r\n\r\n"
            % scripted.url.encode()
        )

    model = open_model(provider, await serve(redirect))

    with pytest.raises(ModelError, match="redirect") as raised:
        await ask(model, provider, user("Hello"))

    assert not raised.value.retryable
    assert not scripted.requests


@every_provider
@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"data: 5\n\n", b"[]\n"])
async def test_an_answer_of_another_kind_is_an_error_of_ours(
    provider: Provider, open_model: Opener, serve: Serve, body: bytes
) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body)
        )

    with pytest.raises(ModelError):
        await ask(open_model(provider, await serve(answer)), provider, user("Hello"))


@every_vendor
async def test_a_line_that_does_not_end_is_not_held_for_ever(
    provider: Provider, open_model: Opener, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "MAX_LINE_BYTES", 100_000)

    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"x" * 10_000)
                await writer.drain()

    with pytest.raises(NetworkError):
        await ask(open_model(provider, await serve(flood)), provider, user("Hello"))


@every_provider
async def test_an_answer_of_whole_lines_that_does_not_end_is_ended(
    provider: Provider, open_model: Opener, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "MAX_REPLY_BYTES", 1_000_000)
    monkeypatch.setattr(replies, "MAX_REPLY_BYTES", 1_000_000)
    line = b'{"message":{"content":""}}\n' if provider.name == "ollama" else b": still here\n"

    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(line * 1000)
                await writer.drain()

    with pytest.raises(ModelError):
        await ask(open_model(provider, await serve(flood)), provider, user("Hello"))


@every_provider
async def test_trailers_without_an_end_are_not_kept_for_ever(
    provider: Provider, open_model: Opener, serve: Serve
) -> None:
    sent: list[int] = []

    async def flood(writer: asyncio.StreamWriter) -> None:
        begun = BEGINNINGS.get(provider.wire, b'{"message":{"content":"Hel"}}\n')
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%s\r\n0\r\n" % (len(begun), begun))
        with contextlib.suppress(ConnectionError):
            while sum(sent) < 100_000_000:
                writer.write(b"X-%d: %s\r\n" % (len(sent), b"x" * 10_000))
                sent.append(10_000)
                await writer.drain()

    with pytest.raises(ModelError):
        await ask(open_model(provider, await serve(flood)), provider, user("Hello"))

    assert sum(sent) < 20_000_000  # what the kernel takes


@every_vendor
async def test_an_answer_that_ends_without_its_end_has_broken_off(
    provider: Provider, open_model: Opener, serve: Serve
) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(BEGINNINGS[provider.wire])

    model = open_model(provider, await serve(answer))
    deltas: list[Delta] = []
    request = ModelRequest(model=provider.model, messages=[user("Hello")])

    with pytest.raises(ModelError) as raised:  # noqa: PT012 - what came before it counts
        async with aclosing(model.stream(request)) as batches:
            async for batch in batches:
                deltas += batch

    assert text_of(deltas) == "Hel"
    assert raised.value.retryable
    assert type(raised.value) in (NetworkError, ServiceUnavailable)


CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
GOOGLES = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hel"}]}}]}
ANTHROPICS: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
]


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(
        f"event: {event.get('type', 'x')}\ndata: {json.dumps(event)}\n\n".encode()
        for event in events
    )


def chunk(delta: dict[str, Any], **choice: Any) -> dict[str, Any]:
    return {**CHUNK, "choices": [{"index": 0, "delta": delta, **choice}]}


OPENAIS = sse(chunk({"role": "assistant", "content": "Hel"}))
BEGINNINGS = {
    "anthropic": sse(*ANTHROPICS),
    "google": f"data: {json.dumps(GOOGLES)}\r\n\r\n".encode(),
    "openai": OPENAIS,
    "responses": sse(
        {"type": "response.output_text.delta", "item_id": "m", "content_index": 0, "delta": "Hel"}
    ),
    "openrouter": OPENAIS,
    "mine": OPENAIS,
}


@pytest.mark.parametrize("arguments", ['{"zone": ', "[1, 2]", "noon", "5"])
async def test_arguments_that_are_no_object_reach_the_tool_as_what_they_are(
    open_model: Opener, serve: Serve, arguments: str
) -> None:
    function = {"name": "now", "arguments": arguments}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(sse(chunk({"tool_calls": [call]}), chunk({}, finish_reason="tool_calls")))

    deltas = await ask(open_model(MINE, await serve(answer)), MINE, user("Hello"), tools=[NOW])

    (made,) = calls_of(deltas)
    assert made.arguments == {"INVALID_JSON": arguments}
    assert end_of(deltas).done_reason == "tool_calls"


@every_provider
@pytest.mark.parametrize(("levels", "is_taken"), [(64, True), (65, False), (400, False)])
async def test_arguments_nested_too_deeply_reach_the_tool_as_text(
    provider: Provider, open_model: Opener, levels: int, is_taken: bool
) -> None:
    nested: Any = "end"
    for level in range(levels - 1):
        nested = [nested] if level % 2 else {"in": nested}
    arguments = {"zone": nested}

    deltas = await ask(
        open_model(provider), provider, block(calls(("now", arguments))), tools=[NOW]
    )

    (made,) = calls_of(deltas)
    if is_taken:
        assert made.arguments == arguments
    else:
        assert list(made.arguments) == ["JSON_NESTED_TOO_DEEPLY"]
        assert json.loads(made.arguments["JSON_NESTED_TOO_DEEPLY"]) == arguments


async def test_calls_of_one_id_get_two(open_model: Opener, serve: Serve) -> None:
    made = [
        {"index": at, "id": "same", "type": "function", "function": {"name": "now"}}
        for at in range(2)
    ]

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(sse(chunk({"tool_calls": made}), chunk({}, finish_reason="tool_calls")))

    deltas = await ask(open_model(MINE, await serve(answer)), MINE, user("Hello"), tools=[NOW])

    first, second = calls_of(deltas)
    assert first.id == "same"
    assert second.id != "same"
    assert (first.arguments, second.arguments) == ({}, {})
