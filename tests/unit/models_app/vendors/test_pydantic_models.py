"""What conversations send again is kept in vendors' caches, where they take it."""

import asyncio
from functools import partial
from typing import Any

import pytest

from models_app.errors import ModelError
from models_app.expiring_cache import ExpiringCache
from models_app.language_model import Finished, Warned
from models_app.model_calls import call_models_for
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.signatures import STATE_KEY
from sessions_app.messages import SystemMessage, ToolCall, UserMessage
from tests.contract.language_model.cases import text_of
from tests.unit.models_app.vendors.conftest import OpenVendor
from tests.unit.models_app.vendors.fake_vendor import (
    NOW,
    Answer,
    FakeVendor,
    ask,
    asking,
    claude,
    refused,
    result,
    user,
)

CLAUDE = "claude-haiku-4-5"
PROMPT = SystemMessage(content="Be brief.", message_id="s", timestamp="t")
FIVE_MINUTES = {"type": "ephemeral", "ttl": "5m"}
BOUND = "messages.1.content.0: The block is bound to a different conversation."
AN_HOUR = {"type": "ephemeral", "ttl": "1h"}


def chunk(**fields: Any) -> dict[str, Any]:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {"type": "chunk", **head, **fields}


def openais(text: str = "Hello") -> Answer:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return Answer(200, [chunk(choices=[choice]), chunk(choices=[end])])


async def ask_cached(
    fake: FakeVendor, model: VendorLanguageModel, *, name: str = CLAUDE, **more: Any
) -> Any:
    """Ask with a system prompt and a tool; return the body of the request."""
    more = {"tools": [NOW], **more}
    await ask(model, name, PROMPT, user("Hi"), **more)
    return fake.bodies[-1]


def points(body: Any) -> dict[str, Any]:
    """Return the cache points of a request of Anthropic's, by their places."""
    system = body.get("system")
    blocks = system if isinstance(system, list) else []
    found = {
        "top": body.get("cache_control"),
        "system": next((it["cache_control"] for it in blocks if "cache_control" in it), None),
        "tools": next(
            (it["cache_control"] for it in body.get("tools", ()) if "cache_control" in it), None
        ),
    }
    return {place: point for place, point in found.items() if point is not None}


async def test_claude_is_told_to_keep_the_conversation_its_prompt_and_its_tools(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    fake.answer("/v1/messages", claude())
    model = open_vendor("anthropic", "")

    usual = points(await ask_cached(fake, model))
    for_an_hour = points(await ask_cached(fake, model, options={"cache": "1h"}))
    off = points(await ask_cached(fake, model, options={"cache": "off"}))

    assert usual == {"top": FIVE_MINUTES, "system": FIVE_MINUTES, "tools": FIVE_MINUTES}
    assert for_an_hour == {"top": AN_HOUR, "system": AN_HOUR, "tools": AN_HOUR}
    assert off == {}


async def test_an_agents_messages_are_not_kept_as_its_last_one_is_replaced(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    fake.answer("/v1/messages", claude())

    body = await ask_cached(fake, open_vendor("anthropic", ""), purpose="agent")

    assert points(body) == {"system": FIVE_MINUTES, "tools": FIVE_MINUTES}


@pytest.mark.parametrize("purpose", ["summary", "compaction", "structured", "plan"])
async def test_nothing_is_kept_of_what_nobody_sends_again(
    fake: FakeVendor, open_vendor: OpenVendor, purpose: Any
) -> None:
    fake.answer("/v1/messages", claude())
    fake.answer("/v1/chat/completions", openais())
    is_plan = purpose == "plan"
    more: Any = {"purpose": "agent", "tools": ()} if is_plan else {"purpose": purpose}

    assert points(await ask_cached(fake, open_vendor("anthropic", ""), **more)) == {}
    body = await ask_cached(fake, open_vendor(), name="gpt-4o-mini", **more)
    assert "prompt_cache_key" not in body


@pytest.mark.parametrize("configured", ["5m", "1h", "off"])
async def test_the_setting_counts_where_a_request_has_none(
    fake: FakeVendor, open_vendor: OpenVendor, configured: Any
) -> None:
    fake.answer("/v1/messages", claude())
    vendor = open_vendor("anthropic", "").vendor
    model = VendorLanguageModel(
        vendor, key_of={"SOME_KEY": "sk-0123456789abc"}.get, prompt_cache=configured
    )

    body = await ask_cached(fake, model)
    await model.aclose()

    ttls = {point["ttl"] for point in points(body).values()}
    assert ttls == ({configured} if configured != "off" else set())


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("anthropic/claude-haiku-4.5", ["system", "tool", "user"]),
        ("google/gemini-2.5-flash", ["system"]),
        ("qwen/qwen3-14b", []),
    ],
)
async def test_openrouter_gets_the_points_that_a_models_vendor_reads(
    fake: FakeVendor, open_vendor: OpenVendor, name: str, places: list[str]
) -> None:
    fake.answer("/v1/chat/completions", openais())

    body = await ask_cached(fake, open_vendor("openrouter"), name=name)

    marked = [it["role"] for it in body["messages"] if "cache_control" in str(it)]
    marked += ["tool" for tool in body["tools"] if "cache_control" in str(tool)]
    assert sorted(marked) == places


async def test_openai_gets_the_session_as_the_key_of_its_cache(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    fake.answer("/v1/chat/completions", openais())
    model = open_vendor()

    async def in_session() -> Any:
        call_models_for("a1b2c3")
        return await ask_cached(fake, model, name="gpt-4o-mini")

    body = await asyncio.create_task(in_session())
    without = await ask_cached(fake, model, name="gpt-4o-mini")

    assert body["prompt_cache_key"] == "a1b2c3"
    assert "prompt_cache_key" not in without
    assert "cache_control" not in str(body)


async def test_servers_of_ones_own_get_nothing(fake: FakeVendor, open_vendor: OpenVendor) -> None:
    fake.answer("/v1/chat/completions", openais())

    async def in_session() -> Any:
        call_models_for("a1b2c3")
        return await ask_cached(fake, open_vendor("mine"), name="qwen3")

    assert "cache" not in str(await asyncio.create_task(in_session()))


async def test_servers_with_responses_get_the_session_as_key_too(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    fake.answer("/v1/responses", refused(401, "Who are you?"))

    async def in_session() -> None:
        call_models_for("a1b2c3")
        await ask(open_vendor("mine", api="responses"), "qwen3")

    with pytest.raises(ModelError):
        await asyncio.create_task(in_session())
    assert fake.bodies[0]["prompt_cache_key"] == "a1b2c3"


@pytest.mark.parametrize(
    "refusal",
    [
        refused(400, "system.0.cache_control: Extra inputs are not permitted"),
        refused(422, "Extra inputs are not permitted"),
        refused(400, "Unknown field prompt_cache_options"),
    ],
    ids=["cache_control", "extra", "prompt_cache"],
)
async def test_a_refused_cache_is_left_out_for_ten_minutes(
    fake: FakeVendor,
    open_vendor: OpenVendor,
    monkeypatch: pytest.MonkeyPatch,
    refusal: Answer,
) -> None:
    now = [1000.0]
    clock = partial(ExpiringCache, clock=lambda: now[0])
    monkeypatch.setattr("models_app.vendors.language_model.ExpiringCache", clock)
    fake.answer("/v1/messages", refusal, claude("noon"))
    model = open_vendor("anthropic", "")

    deltas = await ask(model, CLAUDE, PROMPT)
    assert text_of(deltas) == "noon"
    assert not any(isinstance(delta, Warned) for delta in deltas)
    await ask(model, CLAUDE, PROMPT)
    await ask(model, "claude-sonnet-4-6", PROMPT)
    now[0] += 601
    await ask(model, CLAUDE, PROMPT)

    assert [bool(points(body)) for body in fake.bodies] == [True, False, False, True, True]


async def test_writes_for_an_hour_are_counted_apart(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    answer = claude()
    answer.body[0]["message"]["usage"] = {
        "input_tokens": 10,
        "output_tokens": 1,
        "cache_read_input_tokens": 500,
        "cache_creation_input_tokens": 80,
        "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 50},
    }
    fake.answer("/v1/messages", answer)

    *_, end = await ask(open_vendor("anthropic", ""), CLAUDE)

    assert isinstance(end, Finished)
    assert (end.prompt_eval_count, end.cached_count) == (590, 500)
    assert (end.cache_write_count, end.cache_write_1h_count) == (80, 50)


@pytest.mark.parametrize("think", [True, False])
async def test_thinking_that_is_bound_to_another_history_is_left_out_once_without_a_warning(
    fake: FakeVendor, open_vendor: OpenVendor, think: bool
) -> None:
    name = "claude-sonnet-5-5"
    thinking = [{"content": "Hm.", "signature": "c2ln"}]
    state = {"provider": "anthropic", "model": name, "thinking": thinking}
    call = ToolCall(id="call_1", name="now", arguments={}, extra={STATE_KEY: state})
    fake.answer("/v1/messages", refused(400, BOUND), claude("noon"))
    history = [user("What time is it?"), asking(call), result(call)]

    deltas = await ask(open_vendor("anthropic", ""), name, *history, tools=[NOW], think=think)

    assert text_of(deltas) == "noon"
    assert not any(isinstance(delta, Warned) for delta in deltas)
    assert len(fake.requests) == 2


@pytest.mark.parametrize("think", [True, False])
async def test_thinking_that_is_refused_is_left_out_of_all_further_rounds_of_the_turn(
    fake: FakeVendor, open_vendor: OpenVendor, think: bool
) -> None:
    name = "claude-sonnet-5-5"
    state = {
        "provider": "anthropic",
        "model": name,
        "thinking": [{"content": "Hm.", "signature": "c2ln"}],
    }
    call = ToolCall(id="call_1", name="now", arguments={}, extra={STATE_KEY: state})
    again = claude("noon")
    if think:  # pydantic-ai asks Anthropic to drop it, in a request that still has it
        dropped = {"type": "thinking_dropped", "reason": "prefix_binding_mismatch"}
        again.body[0]["message"]["input_transformations"] = [
            {**dropped, "path": "messages.1.content.0"}
        ]
    fake.answer("/v1/messages", refused(400, BOUND), again, claude("noon"))
    history = [user("What time is it?"), asking(call), result(call)]
    model = open_vendor("anthropic", "")

    async def turn(turn_id: str, *rounds: int) -> list[bool]:
        call_models_for("a1b2c3", turn_id)
        before = len(fake.requests)
        for _ in rounds:
            await ask(model, name, *history, tools=[NOW], think=think)
        return ["c2ln" in str(body) for body in fake.bodies[before:]]

    assert await asyncio.create_task(turn("t1", 1, 2, 3)) == [True, think, False, False]
    assert await asyncio.create_task(turn("t2", 1)) == [True]


async def test_thinking_that_is_refused_to_an_agent_is_still_sent_for_its_caller(
    fake: FakeVendor, open_vendor: OpenVendor
) -> None:
    name = "claude-sonnet-5-5"
    thinking = [{"content": "Hm.", "signature": "c2ln"}]
    state = {"provider": "anthropic", "model": name, "thinking": thinking}
    call = ToolCall(id="call_1", name="now", arguments={}, extra={STATE_KEY: state})
    fake.answer("/v1/messages", refused(400, BOUND), claude("noon"))
    model = open_vendor("anthropic", "")

    async def turn(*question_ids: str) -> list[bool]:
        call_models_for("a1b2c3", "t1")
        for question_id in question_ids:
            question = UserMessage(content="Time?", message_id=question_id, timestamp="t")
            history = [question, asking(call), result(call)]
            await ask(model, name, *history, tools=[NOW], think=False)
        return ["c2ln" in str(body) for body in fake.bodies]

    sent = await asyncio.create_task(turn("agents", "agents", "callers"))
    assert sent == [True, False, False, True]
