"""The clients that Python programs use, against a server on loopback."""

import asyncio
import base64
import ssl
import subprocess
import sys
from contextlib import aclosing

import ollama as library
import pytest

from mochi_server.ollama import AsyncInstructorOllamaClient, AsyncOllamaClient, OllamaClient
from models_app.errors import (
    ContextOverflow,
    ModelError,
    ModelNotFound,
    OllamaError,
    OllamaUnreachable,
    ThinkingNotSupported,
)
from sessions_app.messages import ToolSpec, UserMessage
from tests.unit.models_app.ollama.test_structured import Weather

CALL = {"id": "call_7", "function": {"name": "add", "arguments": {"a": {"b": 1}}}}
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture
async def client(fake):
    made = AsyncOllamaClient(fake.url)
    yield made
    await made.close()


async def in_thread(fake, work):
    """Run blocking code beside the loop that serves it."""

    def run():
        with OllamaClient(fake.url, connect_timeout=1) as client:
            return work(client)

    return await asyncio.to_thread(run)


# --- both kinds of chat -------------------------------------------------------------------------


async def test_async_chat_yields_the_librarys_responses_with_ids(client, fake, wire):
    fake.answers = [
        wire.stream_of(
            wire.text("Hel"),
            wire.text("lo"),
            {"message": {"role": "assistant", "content": "", "tool_calls": [CALL]}, **_done()},
        )
    ]
    async with aclosing(client.chat_stream("m", HI)) as pieces:
        got = [piece async for piece in pieces]
    assert all(isinstance(piece, library.ChatResponse) for piece in got)
    assert [piece.message.content for piece in got] == ["Hel", "lo", ""]
    assert got[-1].message.tool_calls[0].id == "call_7"
    assert got[-1]["message"]["tool_calls"][0]["function"]["arguments"] == {"a": {"b": 1}}
    assert got[-1].eval_count == 41


async def test_sync_chat_yields_the_same(fake, wire):
    fake.answers = [
        wire.stream_of(
            wire.text("Hel"),
            wire.text("lo"),
            {"message": {"role": "assistant", "content": "", "tool_calls": [CALL]}, **_done()},
        )
    ]
    got = await in_thread(fake, lambda client: list(client.chat_stream("m", HI)))
    assert [piece.message.content for piece in got] == ["Hel", "lo", ""]
    assert got[-1].message.tool_calls[0].id == "call_7"


async def test_a_whole_answer_is_the_sum_of_its_pieces(client, fake, wire):
    thought = {"message": {"role": "assistant", "content": "", "thinking": "Hm"}, "done": False}
    fake.answers = [wire.stream_of(thought, wire.text("Hel"), wire.text("lo"), wire.DONE)]
    whole = await client.chat("m", HI)
    also = await in_thread(fake, lambda sync: sync.chat("m", HI))
    for answer in (whole, also):
        assert answer.message.content == "Hello"
        assert answer.message.thinking == "Hm"
        assert answer.message.tool_calls is None
        assert (answer.done, answer.eval_count) == (True, 41)


async def test_images_reach_the_wire_in_bare_base64(client, fake, wire):
    encoded = base64.b64encode(b"\x89PNG").decode()
    fake.answers = [wire.stream_of(wire.DONE)]
    for given in (b"\x89PNG", encoded):
        image = library.Image(value=given)
        await client.chat("m", [library.Message(role="user", content="", images=[image])])
    await client.chat("m", [{"role": "user", "content": "", "images": [b"\x89PNG"]}])
    sent = [chat.json["messages"][0]["images"] for chat in fake.chats]
    assert sent == [[encoded]] * 3


async def test_arguments_reach_the_wire_whole(client, fake, wire):
    def add(a: int, b: int = 1) -> int:
        """Add two numbers.

        Args:
            a: The first.
            b: The second.
        """
        return a + b

    schema = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/P"}},
        "$defs": {"P": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    }
    tools = [
        add,
        ToolSpec(name="draw", description="Draws.", parameters=schema),
        {"type": "function", "function": {"name": "paint", "parameters": schema}},
    ]
    messages = [
        {"role": "tool", "content": "1", "tool_name": "add", "tool_call_id": "call_1"},
        library.Message(role="assistant", content="ok"),
        UserMessage(content="hi", message_id="1", timestamp="t"),
    ]
    fake.answers = [wire.stream_of(wire.DONE)]

    await client.chat("m", messages, tools, "low", 4096, options={"seed": 1}, keep_alive="5m")
    await in_thread(
        fake,
        lambda sync: sync.chat(
            "m", messages, tools, "low", 4096, options={"seed": 1}, keep_alive="5m"
        ),
    )
    first, second = (chat.json for chat in fake.chats)
    assert first == second
    assert first["options"] == {"seed": 1, "num_ctx": 4096}
    assert (first["think"], first["keep_alive"], first["truncate"]) == ("low", "5m", False)
    assert first["messages"] == [
        messages[0],
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "hi"},
    ]
    assert first["tools"][0]["function"]["name"] == "add"
    for tool in first["tools"][1:]:
        nested = tool["function"]["parameters"]["properties"]["at"]
        assert nested["properties"] == {"x": {"type": "integer"}}


REFUSALS = [
    (404, {"error": "model 'm' not found"}, ModelNotFound),
    (400, {"error": '"m" does not support thinking'}, ThinkingNotSupported),
    (400, {"error": "the input length exceeds the context length"}, ContextOverflow),
    (500, {"error": "no"}, OllamaError),
    (307, b"", OllamaError),
]


@pytest.mark.parametrize(("status", "body", "error"), REFUSALS)
async def test_refusals_are_typed_errors_in_both(client, fake, wire, status, body, error):
    fake.answers = [wire.refusal(status, body)]
    with pytest.raises(ModelError) as raised:
        await client.chat("m", HI)
    assert type(raised.value) is error
    with pytest.raises(ModelError) as raised:
        await in_thread(fake, lambda sync: sync.chat("m", HI))
    assert type(raised.value) is error
    assert raised.value.details["status"] == status


@pytest.mark.parametrize(
    "lines",
    [
        [{"message": {"role": "assistant", "content": "a"}, "done": False}],
        [{"error": "unexpected EOF"}],
        [[]],
        [],
    ],
)
async def test_an_answer_that_breaks_off_is_an_error_in_both(client, fake, wire, lines):
    fake.answers = [wire.stream_of(*lines)]
    with pytest.raises(OllamaError):
        await client.chat("m", HI)
    with pytest.raises(OllamaError):
        await in_thread(fake, lambda sync: sync.chat("m", HI))


async def test_silence_is_an_error_in_both(fake, wire):
    async def answer(exchange):
        await exchange.begin_stream()
        await exchange.client_gone()

    fake.answers = [answer]
    async_client = AsyncOllamaClient(fake.url, silence_timeout=0.1)
    with pytest.raises(OllamaError, match="silent"):
        await async_client.chat("m", HI)
    await async_client.close()

    def ask():
        with OllamaClient(fake.url, silence_timeout=0.1) as client:
            client.chat("m", HI)

    with pytest.raises(OllamaError, match="silent"):
        await asyncio.to_thread(ask)


async def test_closing_an_async_chat_closes_the_connection(client, fake, wire):
    gone = asyncio.Event()

    async def answer(exchange):
        await exchange.begin_stream()
        await exchange.lines(wire.text("a"))
        await exchange.client_gone()
        gone.set()

    fake.answers = [answer]
    async with aclosing(client.chat_stream("m", HI)) as pieces:
        await anext(pieces)
    await asyncio.wait_for(gone.wait(), 20)


# --- models -------------------------------------------------------------------------------------


async def test_both_clients_list_only_models_that_can_chat(client, fake, wire):
    fake.models = {
        "qwen3:14b": wire.shown("completion", "tools"),
        "embed:latest": wire.shown("embedding"),
        "broken:latest": 500,
    }
    listed = await client.list_models()
    assert [info.name for info in listed] == ["qwen3:14b"]
    assert listed == await in_thread(fake, lambda sync: sync.list_models())


async def test_both_clients_show_a_model(client, fake, wire):
    fake.models = {"m:latest": wire.shown("completion")}
    shown = await client.show_model_details("m")
    assert shown.capabilities == ["completion"]
    assert shown == await in_thread(fake, lambda sync: sync.show_model_details("m"))
    with pytest.raises(ModelNotFound, match="'nope:latest' not found"):
        await client.show_model_details("nope")
    with pytest.raises(ModelNotFound, match="'nope:latest' not found"):
        await in_thread(fake, lambda sync: sync.show_model_details("nope"))


async def test_an_address_without_an_ollama_is_not_taken_for_a_missing_model(client, fake, wire):
    fake.models = {"m:latest": 404}
    fake.paths_missing = {"/api/show", "/api/chat"}
    with pytest.raises(OllamaError, match="Is there an Ollama server"):
        await client.show_model_details("m")
    with pytest.raises(OllamaError, match="Is there an Ollama server"):
        await in_thread(fake, lambda sync: sync.chat("m", HI))


async def test_a_server_that_is_not_there_is_unreachable_for_all():
    url = "http://ann:secret@127.0.0.1:9"
    async_client, instructor = AsyncOllamaClient(url), AsyncInstructorOllamaClient(url)
    asked = [
        async_client.list_models(),
        async_client.chat("m", HI),
        instructor.structured_response("m", HI, Weather),
        asyncio.to_thread(lambda: OllamaClient(url).list_models()),
        asyncio.to_thread(lambda: OllamaClient(url).chat("m", HI)),
    ]
    for error in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(error, OllamaUnreachable)
        assert "secret" not in error.message
    await async_client.close()
    await instructor.close()


# --- as a library -------------------------------------------------------------------------------


def test_the_clients_need_neither_django_nor_its_settings():
    script = """
import sys
from mochi_server.ollama import AsyncInstructorOllamaClient, AsyncOllamaClient, OllamaClient
OllamaClient(host="http://localhost:11434")
assert "django.conf" not in sys.modules, "Django came along"
"""
    run_alone(script)


def test_the_provider_imports_no_client_before_it_is_used():
    script = """
import sys, models_app.catalogue
from models_app.ollama.language_model import OllamaLanguageModel
OllamaLanguageModel()
heavy = {"aiohttp", "ollama", "httpx", "ollama_instructor"} & sys.modules.keys()
assert not heavy, heavy
"""
    run_alone(script)


def run_alone(script):
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _done():
    return {"done": True, "done_reason": "stop", "eval_count": 41, "prompt_eval_count": 21}


def test_certificates_are_loaded_once_for_all_clients(monkeypatch):
    OllamaClient("http://127.0.0.1:1")

    def loads_nothing(*_, **__):
        raise AssertionError("the certificates were loaded again")

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", loads_nothing)
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", loads_nothing)

    AsyncOllamaClient("http://127.0.0.1:1")
    AsyncInstructorOllamaClient("http://127.0.0.1:1")
