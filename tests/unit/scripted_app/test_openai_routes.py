"""OpenAI's routes of the scripted server, asked by the vendor's SDK."""

import json
import re
from collections.abc import Callable
from typing import Any

import aiohttp
import openai
import pytest

from scripted_app.replies import lorem, stable_hash

Scripted = Callable[..., dict[str, Any]]
HELLO: Any = {"role": "user", "content": "Hello!"}
ANSWER = f"{lorem(5 + stable_hash('Hello!') % 496)}\n\nHello!"


async def test_the_models_are_listed_and_shown(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == [
        "qwen3:14b",
        "scripted-plain:latest",
        "scripted-vision:latest",
    ]
    assert (await client.models.retrieve("scripted-plain")).id == "scripted-plain:latest"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("nope")


async def test_a_stream_has_text_one_finish_chunk_and_the_usage_on_request(
    client: openai.AsyncOpenAI,
) -> None:
    stream = await client.chat.completions.create(
        model="qwen3:14b", messages=[HELLO], stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert re.fullmatch(r"gen-\d+-[0-9a-f]{8}", chunks[0].id)
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks[:-1]]
    assert "".join(texts) == ANSWER
    reasons = [chunk.choices[0].finish_reason for chunk in chunks[:-1]]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens == 2
    assert chunks[-1].usage.completion_tokens == -(-len(ANSWER) // 4)


async def test_the_stream_on_the_wire_is_the_seeds(http: aiohttp.ClientSession) -> None:
    asked = {"model": "qwen3:14b", "messages": [{**HELLO, "content": "Hi\nReason: x"}]}
    reply = await http.post("/v1/chat/completions", json={**asked, "stream": True})
    assert reply.content_type == "text/event-stream"
    events = (await reply.text()).split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    first = json.loads(events[0].removeprefix("data: "))
    assert first["choices"] == [{"index": 0, "delta": {"reasoning": "lorem ipsum dolor sit amet"}}]
    finish = json.loads(events[-3].removeprefix("data: "))
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]


@pytest.mark.parametrize(
    ("asked", "thinks"),
    [
        ({"reasoning_effort": "low"}, True),
        ({"reasoning": {"effort": "high"}}, True),
        ({"reasoning_effort": "none"}, False),
        ({}, False),
    ],
)
async def test_an_effort_asks_for_reasoning(
    asked: dict[str, Any], thinks: bool, client: openai.AsyncOpenAI
) -> None:
    reply = await client.chat.completions.create(
        model="qwen3:14b", messages=[HELLO], extra_body=asked
    )
    message = reply.choices[0].message
    assert message.content == ANSWER
    assert getattr(message, "reasoning", None) == (ANSWER if thinks else None)


async def test_each_message_of_a_block_is_a_choice_and_calls_come_progressively(
    client: openai.AsyncOpenAI, scripted: Scripted
) -> None:
    arguments = {"city": "Zürich", "days": [1, 2, 3]}
    calls = [{"name": "weather", "args": arguments}, {"name": "now"}]
    asked: Any = scripted(
        id_message="ID",
        reasoning={"length": 2},
        messages=[{"text_message": {"length": 7}}, {"tool_call": calls}],
    )
    stream = await client.chat.completions.create(model="qwen3:14b", messages=[asked], stream=True)
    content = reasoning = ""
    names: dict[int, str] = {}
    fragments: dict[int, list[str]] = {}
    async for chunk in stream:
        choice = chunk.choices[0]
        if choice.delta.tool_calls:
            assert choice.index == 1
            (call,) = choice.delta.tool_calls
            assert call.function is not None
            if call.id:
                names[call.index] = call.function.name or ""
            fragments.setdefault(call.index, []).append(call.function.arguments or "")
        else:
            assert choice.index == 0
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning", "")
    assert (reasoning, content) == (f"ID {lorem(2)} ID", f"ID {lorem(7)} ID")
    assert names == {0: "weather", 1: "now"}
    assert len(fragments[0]) > 2
    assert json.loads("".join(fragments[0])) == arguments
    assert json.loads("".join(fragments[1])) == {}


async def test_a_reply_that_is_not_streamed_has_a_choice_for_each_message(
    client: openai.AsyncOpenAI, scripted: Scripted
) -> None:
    asked: Any = scripted(
        messages=[
            {"text_message": {"text": "one"}},
            {"tool_call": [{"name": "a", "args": {"x": 1}}]},
        ]
    )
    reply = await client.chat.completions.create(model="qwen3:14b", messages=[asked])
    text, call = reply.choices
    assert (text.index, text.message.content) == (0, "one")
    assert call.message.tool_calls is not None
    assert call.message.content is None
    function: Any = call.message.tool_calls[0]
    assert (function.function.name, function.function.arguments) == ("a", '{"x":1}')
    assert reply.usage is not None


async def test_text_parts_are_read(client: openai.AsyncOpenAI) -> None:
    parts: Any = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo!"}]
    reply = await client.chat.completions.create(
        model="scripted-plain", messages=[{"role": "user", "content": parts}]
    )
    assert reply.choices[0].message.content == ANSWER


@pytest.mark.parametrize(
    "form",
    [
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
    ],
)
async def test_a_response_format_gets_an_object(form: Any, client: openai.AsyncOpenAI) -> None:
    reply = await client.chat.completions.create(
        model="scripted-plain", messages=[HELLO], response_format=form
    )
    assert isinstance(json.loads(reply.choices[0].message.content or ""), dict)


@pytest.mark.parametrize(
    ("named", "answers"),
    [({}, "qwen3:14b"), ({"model": None}, "qwen3:14b"), ({"model": "gpt-9"}, "gpt-9")],
)
async def test_any_name_is_a_model_and_none_is_needed(
    http: aiohttp.ClientSession, named: dict[str, Any], answers: str
) -> None:
    for streamed in (False, True):
        body = {**named, "messages": [HELLO], "stream": streamed}
        reply = await http.post("/v1/chat/completions", json=body)
        assert reply.status == 200
        first = (await reply.text()).removeprefix("data: ").partition("\n")[0]
        assert json.loads(first)["model"] == answers


async def test_refusals_are_the_sdks_own_errors(
    client: openai.AsyncOpenAI, scripted: Scripted
) -> None:
    create: Any = client.chat.completions.create
    with pytest.raises(openai.BadRequestError, match="does not support thinking"):
        await create(model="scripted-plain", messages=[HELLO], reasoning_effort="low")
    tools = [{"type": "function", "function": {"name": "a"}}]
    with pytest.raises(openai.BadRequestError, match="does not support tools"):
        await create(model="scripted-plain", messages=[HELLO], tools=tools)
    with pytest.raises(openai.RateLimitError):
        await create(model="qwen3:14b", messages=[scripted(status=429)])


async def test_an_error_in_mid_stream_reaches_the_sdk(
    client: openai.AsyncOpenAI, scripted: Scripted
) -> None:
    asked: Any = scripted(error_line="runner died", messages=[{"text_message": {"length": 20}}])
    stream = await client.chat.completions.create(model="qwen3:14b", messages=[asked], stream=True)
    with pytest.raises(openai.APIError, match="runner died"):
        async for _ in stream:
            pass


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"model": 5}', b'{"model": "qwen3:14b"}'])
async def test_a_bad_body_is_400(raw: bytes, http: aiohttp.ClientSession) -> None:
    reply = await http.post("/v1/chat/completions", data=raw)
    assert reply.status == 400
    assert (await reply.json())["error"]["type"] == "invalid_request_error"
