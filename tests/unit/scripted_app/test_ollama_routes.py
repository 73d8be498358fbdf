"""Ollama's routes of the scripted server, asked by the real client."""

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import ollama
import pytest

from scripted_app.replies import lorem, stable_hash
from scripted_app.server import ScriptedModelServer
from tests.unit.sessions_app.attachments import images

Scripted = Callable[..., dict[str, Any]]
HELLO = {"role": "user", "content": "Hello <b>&</b>!"}
ANSWER = f"{lorem(5 + stable_hash(HELLO['content']) % 496)}\n\n{HELLO['content']}"


@pytest.fixture
async def client(server: ScriptedModelServer) -> AsyncIterator[ollama.AsyncClient]:
    async with ollama.AsyncClient(host=server.url) as client:
        yield client


async def ask(http: aiohttp.ClientSession, **body: Any) -> tuple[int, Any]:
    reply = await http.post("/api/chat", json={"model": "qwen3:14b", "messages": [HELLO], **body})
    return reply.status, await reply.json()


async def test_the_models_are_listed_and_the_quick_starts_is_first(
    client: ollama.AsyncClient,
) -> None:
    listed = (await client.list()).models
    assert [model.model for model in listed] == [
        "qwen3:14b",
        "scripted-plain:latest",
        "scripted-vision:latest",
    ]
    assert all(model.details and model.details.format == "gguf" for model in listed)


async def test_show_tells_what_a_model_can(client: ollama.AsyncClient) -> None:
    thinker = await client.show("qwen3:14b")
    assert thinker.capabilities == ["completion", "tools", "thinking"]
    assert thinker.modelinfo is not None
    assert thinker.modelinfo["qwen3.context_length"] == 40_960
    plain = await client.show("scripted-plain")
    assert plain.capabilities == ["completion"]
    assert plain.modelinfo is not None
    assert plain.modelinfo["llama.context_length"] == 8192


async def test_the_list_leaves_out_capabilities_as_a_real_one_may(
    http: aiohttp.ClientSession,
) -> None:
    models = (await (await http.get("/api/tags")).json())["models"]
    assert {tuple(model["capabilities"]) for model in models} == {("completion",)}


async def test_show_of_an_unknown_model_is_404(client: ollama.AsyncClient) -> None:
    with pytest.raises(ollama.ResponseError) as caught:
        await client.show("nope")
    assert caught.value.status_code == 404
    assert caught.value.error == (
        "model 'nope:latest' not found; the scripted models are qwen3:14b, scripted-plain:latest, "
        "scripted-vision:latest"
    )


async def test_the_stream_ends_with_one_done_line_that_has_the_counts(
    client: ollama.AsyncClient,
) -> None:
    chunks = [
        chunk async for chunk in await client.chat("qwen3:14b", [HELLO], think=True, stream=True)
    ]
    assert "".join(chunk.message.content or "" for chunk in chunks) == ANSWER
    assert "".join(chunk.message.thinking or "" for chunk in chunks) == ANSWER
    assert [chunk.done for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    last = chunks[-1]
    assert last.done_reason == "stop"
    assert last.prompt_eval_count == 4
    assert last.eval_count == -(-2 * len(ANSWER) // 4)
    assert last.total_duration


async def test_a_reply_that_is_not_streamed_has_everything_in_one_message(
    client: ollama.AsyncClient,
) -> None:
    reply = await client.chat("qwen3:14b", [HELLO], think=True)
    assert (reply.message.content, reply.message.thinking) == (ANSWER, ANSWER)
    assert (reply.done, reply.done_reason) == (True, "stop")


@pytest.mark.allow_blocking
async def test_the_blocking_client_is_served_too(server: ScriptedModelServer) -> None:
    with ollama.Client(host=server.url) as client:
        reply = await asyncio.to_thread(client.chat, "scripted-plain", [HELLO])
    assert reply.message.content == ANSWER


async def test_tool_calls_have_ids_and_whole_arguments(
    client: ollama.AsyncClient, http: aiohttp.ClientSession, scripted: Scripted
) -> None:
    calls: list[dict[str, Any]] = [
        {"name": "add", "args": {"a": 1, "b": [2, {"c": "<"}]}},
        {"name": "now"},
    ]
    asked = scripted(messages=[{"tool_call": calls}, {"tool_call": [{"name": "end"}]}])
    reply = await client.chat("qwen3:14b", [asked])
    assert reply.message.tool_calls is not None
    assert [call.function.name for call in reply.message.tool_calls] == ["add", "now", "end"]
    assert reply.message.tool_calls[0].function.arguments == calls[0]["args"]
    raw = await http.post("/api/chat", json={"model": "qwen3:14b", "messages": [asked]})
    lines = [json.loads(line) for line in (await raw.read()).splitlines()]
    sent = [line["message"]["tool_calls"] for line in lines if "tool_calls" in line["message"]]
    assert [len(each) for each in sent] == [1, 1, 1]
    assert [each[0]["function"]["index"] for each in sent] == [0, 1, 2]
    assert all(re.fullmatch(r"call_[0-9a-f]{8}", each[0]["id"]) for each in sent)


async def test_a_tool_round_is_scripted_request_by_request(
    client: ollama.AsyncClient, scripted: Scripted
) -> None:
    messages: list[Any] = [
        scripted(
            per_request=True,
            messages=[
                {"tool_call": [{"name": "add", "args": {"a": 1}}]},
                {"text_message": {"text": "It is 1."}},
            ],
        )
    ]
    first = await client.chat("qwen3:14b", messages)
    messages += [first.message, {"role": "tool", "content": "1", "tool_name": "add"}]
    assert (await client.chat("qwen3:14b", messages)).message.content == "It is 1."


async def test_lines_are_written_as_gos_encoder_does(http: aiohttp.ClientSession) -> None:
    reply = await http.post("/api/chat", json={"model": "qwen3:14b", "messages": [HELLO]})
    assert reply.content_type == "application/x-ndjson"
    assert reply.headers["Transfer-Encoding"] == "chunked"
    text = await reply.text()
    assert not set("<>&") & set(text)
    assert r"Hello \u003cb\u003e\u0026" in text
    stamp = json.loads(text.splitlines()[0])["created_at"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", stamp)


async def test_a_format_gets_a_valid_object(client: ollama.AsyncClient) -> None:
    schema = {"type": "object", "properties": {"topics": {"type": "array"}}}
    reply = await client.chat("scripted-plain", [HELLO], format=schema)
    assert json.loads(reply.message.content or "") == {"topics": ["lorem"]}
    reply = await client.chat("scripted-plain", [HELLO], format="json")
    assert isinstance(json.loads(reply.message.content or ""), dict)


async def test_a_chat_without_messages_loads_or_unloads_the_model(
    client: ollama.AsyncClient,
) -> None:
    assert (await client.chat("qwen3:14b", options={"num_ctx": 4096})).done_reason == "load"
    running = (await client.ps()).models
    assert [(model.model, model.context_length) for model in running] == [("qwen3:14b", 4096)]
    assert (await client.chat("qwen3:14b", keep_alive=0)).done_reason == "unload"
    assert not (await client.ps()).models


async def test_the_version_can_be_asked(http: aiohttp.ClientSession) -> None:
    assert re.fullmatch(r"[\d.]+", (await (await http.get("/api/version")).json())["version"])


async def test_overflow_is_silent_unless_truncation_is_refused(http: aiohttp.ClientSession) -> None:
    long = [{"role": "user", "content": "x" * 4004}]
    status, body = await ask(
        http, messages=long, stream=False, options={"num_ctx": 1000}, model="qwen3:14b"
    )
    assert (status, body["prompt_eval_count"]) == (200, 1000)
    status, body = await ask(http, messages=long, truncate=False, options={"num_ctx": 1000})
    assert status == 400
    error = json.loads(body["error"])["error"]
    assert error["type"] == "exceed_context_size_error"
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (1001, 1000)
    status, _ = await ask(
        http, messages=long, truncate=False, stream=False, options={"num_ctx": 1001}
    )
    assert status == 200


async def test_a_window_beyond_what_the_model_was_made_for_is_clamped(
    http: aiohttp.ClientSession,
) -> None:
    long = [{"role": "user", "content": "x" * 40_000}]
    status, body = await ask(
        http,
        model="scripted-plain",
        messages=long,
        truncate=False,
        options={"num_ctx": 65_536},
    )
    assert (status, json.loads(body["error"])["error"]["n_ctx"]) == (400, 8192)


TOOLS = [{"type": "function", "function": {"name": "add"}}]
SHOWN = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()


@pytest.mark.parametrize("is_encoded", [False, True])
async def test_a_model_that_sees_says_which_images_it_got(
    client: ollama.AsyncClient, is_encoded: bool
) -> None:
    picture = images.png(padding=100_000)
    value = base64.b64encode(picture).decode() if is_encoded else picture
    asked = ollama.Message(role="user", content="Look!", images=[ollama.Image(value=value)])

    reply = await client.chat("scripted-vision", [asked])

    digest = hashlib.sha256(picture).hexdigest()
    line = f"[image/png, {len(picture)} bytes, sha256:{digest}]"
    assert reply.message.content is not None
    assert reply.message.content.endswith(f"Look!\n{line}")


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"model": "nope"}, 404, "model 'nope' not found"),
        ({"model": "qwen3"}, 404, "model 'qwen3' not found"),
        ({"model": ""}, 400, "model is required"),
        (
            {"model": "scripted-plain", "tools": TOOLS},
            400,
            "registry.ollama.ai/library/scripted-plain:latest does not support tools",
        ),
        (
            {"model": "scripted-plain", "think": True},
            400,
            '"scripted-plain" does not support thinking',
        ),
        ({"think": "bogus"}, 400, "invalid think value"),
        ({"format": "yaml"}, 500, 'invalid format: "yaml"'),
        ({"format": {"$ref": "#"}}, 500, "invalid JSON schema in format"),
        (
            {"options": {"temperature": "hot"}},
            500,
            'option "temperature" must be of type float32',
        ),
        ({"options": {"num_ctx": "big"}}, 500, 'option "num_ctx" must be of type integer'),
        ({"options": []}, 200, None),
        ({"options": [1]}, 400, "json: cannot unmarshal"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
            400,
            "json: cannot unmarshal array into Go struct field ChatRequest.messages.content",
        ),
        ({"messages": 5}, 400, "json: cannot unmarshal"),
        ({"messages": [5]}, 400, "json: cannot unmarshal"),
        (
            {"messages": [{"tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]}]},
            400,
            "Value looks like object, but can't find closing '}' symbol",
        ),
        ({"messages": [{"tool_calls": [5]}]}, 400, "Value looks like object"),
        (
            {"messages": [{"role": "user", "content": "x", "images": [SHOWN]}]},
            400,
            '{"error":{"code":400,"message":"Multimodal data provided, but model does not support',
        ),
        (
            {
                "model": "scripted-vision",
                "messages": [{"role": "user", "images": [f"data:image/png;base64,{SHOWN}"]}],
            },
            400,
            "illegal base64 data",
        ),
        (
            {"model": "scripted-vision", "messages": [{"role": "user", "images": ["?"]}]},
            400,
            "illegal base64 data",
        ),
        ({"messages": [{"role": "user", "images": "x"}]}, 400, "json: cannot unmarshal"),
        ({"model": "scripted-plain", "tools": [], "think": False}, 200, None),
        ({"messages": [{"role": "user", "content": None}]}, 200, None),
    ],
)
async def test_bad_requests_get_ollamas_status_and_words(
    body: dict[str, Any], status: int, error: str | None, http: aiohttp.ClientSession
) -> None:
    answered, reply = await ask(http, stream=False, **body)
    assert answered == status
    assert (reply.get("error") or "").startswith(error or "")


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"", "missing request body"),
        (b'{"model":', "unexpected EOF"),
        (b"[" * 100_000, "unexpected EOF"),
        (b"[]", "json: cannot unmarshal"),
    ],
)
async def test_a_body_that_is_no_object_is_400(
    raw: bytes, error: str, http: aiohttp.ClientSession
) -> None:
    reply = await http.post("/api/chat", data=raw)
    assert reply.status == 400
    assert (await reply.json())["error"].startswith(error)
