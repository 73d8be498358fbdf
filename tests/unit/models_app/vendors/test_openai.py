"""What OpenAI is asked by which API, and what a request by Responses says."""

import asyncio
from typing import Any

import pytest

from models_app.language_model import Finished, Warned
from models_app.model_calls import call_models_for
from models_app.vendors.openai import OpenAI
from models_app.vendors.registry import make_vendor
from models_app.vendors.signatures import STATE_KEY
from sessions_app.messages import ToolCall
from tests.contract.language_model.cases import calls_of, text_of, thinking_of
from tests.unit.models_app.vendors.conftest import OpenVendor
from tests.unit.models_app.vendors.fake_vendor import (
    NOW,
    USAGE,
    Answer,
    FakeVendor,
    ask,
    asking,
    chat_answer,
    message,
    reasoning,
    response,
    result,
    user,
)

RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"
HELLO = response(message("Hello"))


async def sent(fake: FakeVendor, model: Any, name: str, **more: Any) -> dict[str, Any]:
    """Return the body of the request that a call of Responses makes."""
    fake.answer(RESPONSES, HELLO)
    deltas = await ask(model, name, **more)
    assert text_of(deltas) == "Hello"
    assert fake.paths[-1] == RESPONSES
    return fake.bodies[-1]


# Which API


@pytest.mark.parametrize(
    "name",
    [
        "gpt-5.6-terra", "gpt-5.6-sol", "gpt-6-astra", "gpt-6-luna", "gpt-6.1-sol", "gpt-6.1-terra",
        "gpt-5.5", "gpt-5.4-pro", "gpt-5.1", "gpt-5", "gpt-5-mini", "gpt-5-pro", "gpt-5.3-codex",
        "gpt-5.2-chat-latest", "o1", "o3", "o4-mini", "codex-mini-latest", "computer-use-preview",
        "ft:gpt-5.1:acme::x", "gpt-9-nova",
    ],
)  # fmt: skip
def test_models_of_openai_are_asked_by_responses(name: str) -> None:
    assert OpenAI().uses_responses(name)


@pytest.mark.parametrize(
    "name",
    [
        "gpt-3.5-turbo", "gpt-4", "gpt-4.1", "gpt-4o-mini", "ft:gpt-4.1:acme::x", "gpt-oss-120b",
        "gpt-audio", "chatgpt-4o-latest", "gpt-5-chat-latest", "davinci-002", "babbage-002",
        "ft:davinci-002:acme", "qwen3", "claude-haiku-4-5",
    ],
)  # fmt: skip
def test_others_are_asked_by_chat_completions(name: str) -> None:
    assert not OpenAI().uses_responses(name)


@pytest.mark.parametrize("name", ["gpt-6-luna", "gpt-4.1", "qwen3"])
def test_a_configured_api_is_that_of_every_model(name: str) -> None:
    assert OpenAI(api="responses").uses_responses(name)
    assert not OpenAI(api="chat").uses_responses(name)


def test_servers_of_ones_own_are_asked_by_chat_completions_unless_configured() -> None:
    mine = make_vendor("mine", base_url="http://x/v1", key_variable=None)
    assert not mine.uses_responses("gpt-5.6-terra")
    mine = make_vendor("mine", base_url="http://x/v1", key_variable=None, api="responses")
    assert mine.uses_responses("qwen3")


@pytest.mark.parametrize("name", ["anthropic", "google", "openrouter"])
def test_vendors_with_an_api_of_their_own_have_no_responses(name: str) -> None:
    assert not make_vendor(name, base_url=None, key_variable=None).uses_responses("gpt-6-luna")


# Efforts: what OpenAI's models are sent for what is asked of them


EFFORTS = {
    # model: for False, "minimal", "low", True, "high", "xhigh", "max"
    "gpt-6-astra": ["low", "low", "low", "medium", "high", "xhigh", "max"],
    "gpt-6.1-sol": ["low", "low", "low", "medium", "high", "xhigh", "max"],
    "gpt-6.1-terra": ["none", "low", "low", "medium", "high", "xhigh", "max"],
    "gpt-6-sol": ["none", "low", "low", "medium", "high", "xhigh", "max"],
    "gpt-6-luna": ["none", "low", "low", "medium", "high", "xhigh", "max"],
    "gpt-5.6-terra": ["none", "low", "low", "medium", "high", "xhigh", "max"],
    "gpt-5.5": ["none", "minimal", "low", "medium", "high", "xhigh", "xhigh"],
    "gpt-5.4": ["none", "minimal", "low", "medium", "high", "xhigh", "xhigh"],
    "gpt-5.1": ["none", "minimal", "low", "medium", "high", "xhigh", "xhigh"],
    "gpt-5.4-pro": ["medium", "medium", "medium", "medium", "high", "xhigh", "xhigh"],
    "gpt-5-pro": ["high"] * 7,
    "gpt-5.2-chat-latest": ["medium"] * 7,
    "gpt-5": ["minimal", "minimal", "low", "medium", "high", "high", "high"],
    "o3": ["low", "low", "low", "medium", "high", "high", "high"],
}


@pytest.mark.parametrize("name", EFFORTS)
async def test_a_model_is_asked_for_the_nearest_effort_that_it_has(
    fake: FakeVendor, open_vendor: OpenVendor, name: str
) -> None:
    model = open_vendor()
    asked: list[Any] = [False, "minimal", "low", True, "high", "xhigh", "max"]

    bodies = [await sent(fake, model, name, think=think) for think in asked]

    assert [body["reasoning"]["effort"] for body in bodies] == EFFORTS[name]
    # What is not asked for is not shown.
    assert [body["reasoning"].get("summary") for body in bodies] == [None, *["auto"] * 6]


@pytest.mark.parametrize(
    ("name", "thinks"), [("gpt-5.6-terra", True), ("gpt-6-astra", True), ("gpt-5.1", False)]
)
async def test_without_a_wish_the_model_decides_whether_to_think(
    fake: FakeVendor, open_vendor: OpenVendor, name: str, thinks: bool
) -> None:
    body = await sent(fake, open_vendor(), name, options={"max_tokens": 100, "temperature": 0.5})

    asked = body.get("reasoning", {})
    assert "effort" not in asked
    assert asked.get("summary") == ("auto" if thinks else None)
    assert body["max_output_tokens"] == (25_100 if thinks else 100)
    assert ("temperature" in body) is not thinks


async def test_models_that_cannot_reason_are_not_asked_to(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    model = open_vendor(api="responses")
    options = {"temperature": 0.5, "max_tokens": 100}

    for name in ("gpt-4.1", "gpt-5-chat-latest"):
        body = await sent(fake, model, name, think=True, options=options)
        assert "reasoning" not in body
        assert "include" not in body
        assert (body["temperature"], body["max_output_tokens"]) == (0.5, 100)


@pytest.mark.parametrize("provider", ["openai", "mine"])
async def test_a_name_that_only_its_server_knows_may_be_asked_to_reason(
    fake: FakeVendor, open_vendor: OpenVendor, provider: str
) -> None:
    model = open_vendor(provider, api="responses")
    options = {"temperature": 0.5}

    body = await sent(fake, model, "our-deployment", think="high", options=options)
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body["include"] == ["reasoning.encrypted_content"]
    assert "temperature" not in body
    # Not every model can be told not to.
    for think in (False, None):
        body = await sent(fake, model, "our-deployment", think=think, options=options)
        assert "reasoning" not in body
        assert body["temperature"] == 0.5


# What else is sent


async def test_a_request_says_all_that_it_needs_and_no_more(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    body = await sent(fake, open_vendor(), "gpt-5.6-terra", think=True, tools=[NOW])

    assert body == {
        "model": "gpt-5.6-terra",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [{"role": "user", "content": "Hello"}],
        "reasoning": {"effort": "medium", "context": "all_turns", "summary": "auto"},
        "tools": [
            {
                "type": "function",
                "name": "now",
                "description": "Tells the time.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "tool_choice": "auto",
    }


async def test_options_are_sent_where_responses_has_them(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    options = {
        "temperature": 0.2, "top_p": 0.9, "max_tokens": 50, "seed": 7, "top_k": 3, "stop": [],
        "presence_penalty": 1, "frequency_penalty": 1, "verbosity": "low", "service_tier": "flex",
    }  # fmt: skip
    plain = await sent(fake, open_vendor(), "gpt-5.6-terra", think=False, options=options)
    thinking = await sent(fake, open_vendor(), "gpt-5.6-terra", think=True, options=options)

    assert (plain["temperature"], plain["top_p"]) == (0.2, 0.9)
    assert (plain["max_output_tokens"], thinking["max_output_tokens"]) == (50, 25_050)
    assert not thinking.keys() & {"temperature", "top_p"}
    for body in (plain, thinking):
        assert body["text"] == {"verbosity": "low"}
        assert body["service_tier"] == "flex"
        assert not body.keys() & {"seed", "top_k", "stop", "presence_penalty", "frequency_penalty"}


async def test_samplers_of_ones_own_server_are_no_part_of_responses(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    options = {"top_k": 3, "min_p": 0.1, "repeat_penalty": 1.1, "verbosity": "high"}

    body = await sent(fake, open_vendor("mine", api="responses"), "qwen3", options=options)

    assert not body.keys() & {"top_k", "min_p", "repeat_penalty"}
    assert body["text"] == {"verbosity": "high"}


async def test_only_openai_gets_its_own_options_by_chat_completions(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    fake.answer(CHAT, chat_answer())
    options = {"verbosity": "low", "service_tier": "priority"}

    await ask(open_vendor(api="chat"), "gpt-5.1", options=options)
    await ask(open_vendor("mine"), "gpt-5.1", options=options)

    assert [body.get("verbosity") for body in fake.bodies] == ["low", None]
    assert [body.get("service_tier") for body in fake.bodies] == ["priority", None]


async def test_an_answer_that_comes_at_once_is_read_as_a_stream(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    text = {"type": "output_text", "text": "Now.", "annotations": []}
    body = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed",
        "error": None, "incomplete_details": None, "parallel_tool_calls": True,
        "tool_choice": "auto", "tools": [], "usage": USAGE,
        "output": [
            {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "c2Vh"},
            {"id": "msg_1", "type": "message", "role": "assistant", "content": [text]},
            {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "now",
             "arguments": '{"zone": "UTC"}'},
        ],
    }  # fmt: skip
    fake.answer(RESPONSES, Answer(200, body))

    deltas = await ask(open_vendor(), "gpt-6-luna", user("Hi"), tools=[NOW])

    (call,) = calls_of(deltas)
    assert text_of(deltas) == "Now."
    assert (call.id, call.name, call.arguments) == ("c1", "now", {"zone": "UTC"})
    assert call.extra[STATE_KEY]["thinking"][0]["signature"] == "c2Vh"
    assert isinstance(deltas[-1], Finished)
    assert deltas[-1].prompt_eval_count == USAGE["input_tokens"]


@pytest.mark.parametrize(("name", "api"), [("gpt-4o", "auto"), ("gpt-4.1", "responses")])
async def test_models_that_do_not_reason_get_no_verbosity(
    fake: FakeVendor, open_vendor: OpenVendor, name: str, api: Any
) -> None:
    fake.answer(CHAT, chat_answer())
    fake.answer(RESPONSES, HELLO)

    await ask(open_vendor(api=api), name, options={"verbosity": "low", "service_tier": "flex"})

    (body,) = fake.bodies
    assert "verbosity" not in str(body)
    assert body["service_tier"] == "flex"


async def test_a_stop_that_is_left_out_is_told_once(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    fake.answer(RESPONSES, response(message("One, two, three")))

    deltas = await ask(open_vendor(), "gpt-6-luna", options={"stop": ["two"]})

    (warning,) = [delta for delta in deltas if isinstance(delta, Warned)]
    assert warning == deltas[0]
    assert "`stop`" in warning.message
    assert "stop" not in fake.bodies[0]
    # Once in a turn: not again after its tools.
    made = ToolCall(id="c1", name="now", arguments={})
    history = [user("Count."), asking(made), result(made)]
    deltas = await ask(open_vendor(), "gpt-6-luna", *history, options={"stop": ["two"]})
    assert not any(isinstance(delta, Warned) for delta in deltas)


async def test_a_schema_and_a_forced_call_are_asked_for(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    model = open_vendor()

    body = await sent(fake, model, "gpt-6-luna", answer_schema=schema)
    form = body["text"]["format"]
    assert (form["type"], form["name"], form["strict"]) == ("json_schema", "answer", True)
    body = await sent(fake, model, "gpt-6-luna", tools=[NOW], requires_call=True)
    assert body["tool_choice"] == "required"


async def test_the_key_and_the_account_are_sent_as_before(
    fake: FakeVendor, open_vendor: OpenVendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    fake.answer(RESPONSES, response(reasoning("rs_1", "Hm."), message("Hello")))

    deltas = await ask(open_vendor(), "gpt-6-luna", user("Hi"), think="low")
    await ask(open_vendor("mine", api="responses"), "qwen3")

    assert thinking_of(deltas) == "Hm."
    assert [it.headers["authorization"] for it in fake.requests] == ["Bearer sk-0123456789abc"] * 2
    assert [it.headers.get("openai-organization") for it in fake.requests] == ["org-1", None]


@pytest.mark.parametrize("provider", ["openai", "mine"])
async def test_requests_of_a_session_name_it_as_the_key_of_their_cache(
    fake: FakeVendor, open_vendor: OpenVendor, provider: str
) -> None:
    model = open_vendor(provider, api="responses")

    async def in_session() -> dict[str, Any]:
        call_models_for("a1b2c3")
        return await sent(fake, model, "gpt-6-luna")

    assert (await asyncio.create_task(in_session()))["prompt_cache_key"] == "a1b2c3"
    assert "prompt_cache_key" not in await sent(fake, model, "gpt-6-luna")
