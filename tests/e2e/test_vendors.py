"""The real vendors, for whoever has keys: nothing here runs, or costs anything, without.

The keys have names of their own (``MOCHI_E2E_OPENAI_API_KEY``), so that a key that lies in the
environment for other work is not spent by running the tests; ``MOCHI_E2E_OPENAI_MODEL`` chooses
another model.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import msgspec
import pytest

from models_app.errors import ModelNotFound, Unauthorized
from models_app.language_model import (
    CallDelta,
    Delta,
    Finished,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    Warned,
)
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.registry import make_vendor
from sessions_app.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

MODELS = {
    "anthropic": "claude-haiku-4-5",
    "google": "gemini-2.5-flash",
    "openai": "gpt-5-mini",
    "openrouter": "openai/gpt-5-mini",
}
VARIABLES = {name: f"MOCHI_E2E_{name.upper()}_API_KEY" for name in MODELS}
VENDORS = [name for name, variable in VARIABLES.items() if os.environ.get(variable)]
if not VENDORS:
    pytest.skip(f"none of {', '.join(VARIABLES.values())} is set", allow_module_level=True)

TIME = ToolSpec(
    name="time_in",
    description="Tells the time in a city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)

pytestmark = [pytest.mark.e2e, pytest.mark.allow_blocking, pytest.mark.timeout(180)]


@pytest.fixture(params=VENDORS)
async def vendor(request: pytest.FixtureRequest) -> AsyncIterator[VendorLanguageModel]:
    variable = VARIABLES[request.param]
    models = VendorLanguageModel(make_vendor(request.param, base_url=None, key_variable=variable))
    yield models
    await models.aclose()


def model_of(vendor: VendorLanguageModel) -> str:
    name = vendor.vendor.name
    return os.environ.get(f"MOCHI_E2E_{name.upper()}_MODEL", MODELS[name])


def user(text: str) -> UserMessage:
    return UserMessage(content=text, message_id="u", timestamp="t")


async def ask(vendor: VendorLanguageModel, *messages: Message, **more: object) -> list[Delta]:
    request = ModelRequest(model=model_of(vendor), messages=messages, **more)  # type: ignore[arg-type]
    async with aclosing(vendor.stream(request)) as batches:
        return [delta async for batch in batches for delta in batch]


def text_of(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


async def test_it_answers_and_counts(vendor: VendorLanguageModel) -> None:
    system = SystemMessage(content="Answer with one word.", message_id="s", timestamp="t")

    deltas = await ask(
        vendor, system, user("What is the capital of France?"), options={"max_tokens": 2000}
    )

    assert "paris" in text_of(deltas).lower()
    assert isinstance(deltas[-1], Finished)
    assert deltas[-1].prompt_eval_count


@pytest.mark.parametrize("think", [False, True])
async def test_it_calls_a_tool_and_goes_on(vendor: VendorLanguageModel, think: bool) -> None:
    asked = user("What time is it in Bern and in Oslo? Use the tool, for both at once.")
    deltas = await ask(vendor, asked, tools=[TIME], think=think)
    calls = tuple(delta.call for delta in deltas if isinstance(delta, CallDelta))
    assert calls
    assert all("city" in call.arguments for call in calls)
    answer = AssistantMessage(
        content=text_of(deltas), message_id="a", timestamp="t", tool_calls=calls
    )
    results = [
        ToolMessage(
            content="13:37",
            message_id="r",
            timestamp="t",
            tool_name=call.name,
            tool_call_id=call.id,
        )
        for call in calls
    ]

    deltas = await ask(vendor, asked, answer, *results, tools=[TIME], think=think)

    assert "37" in text_of(deltas) or any(isinstance(delta, CallDelta) for delta in deltas)


async def test_its_models_are_listed(vendor: VendorLanguageModel) -> None:
    assert await vendor.list_models()
    assert (await vendor.describe(model_of(vendor))).can_chat
    with pytest.raises(ModelNotFound):
        await vendor.describe("no-such/model")


async def test_a_wrong_key_is_unauthorized(vendor: VendorLanguageModel) -> None:
    wrong = VendorLanguageModel(vendor.vendor, key_of=lambda _: "sk-wrong-canary-123456")

    with pytest.raises(Unauthorized) as raised:
        await ask(wrong, user("Hello"))
    await wrong.aclose()

    assert "canary" not in raised.value.message


@pytest.mark.skipif("openai" not in VENDORS, reason=f"{VARIABLES['openai']} is not set")
async def test_reasoning_of_openai_is_shown_and_goes_on_after_a_restart() -> None:
    name = os.environ.get("MOCHI_E2E_OPENAI_REASONING_MODEL", "gpt-6-luna")
    vendor = make_vendor("openai", base_url=None, key_variable=VARIABLES["openai"])
    question = "What time is it in Bern and in Oslo? Think about it, then use the tool for each."
    history: list[Message] = [user(question)]
    thoughts: list[str] = []
    for _ in range(3):
        # Each round has a server of its own, which reads what the last one saved.
        models = VendorLanguageModel(vendor)
        request = ModelRequest(model=name, messages=history, tools=[TIME], think="high")
        async with aclosing(models.stream(request)) as batches:
            deltas = [delta async for batch in batches for delta in batch]
        await models.aclose()
        assert not any(isinstance(delta, Warned) for delta in deltas)
        thoughts += [delta.text for delta in deltas if isinstance(delta, ThinkingDelta)]
        made = [delta.call for delta in deltas if isinstance(delta, CallDelta)]
        calls = msgspec.json.decode(msgspec.json.encode(made), type=tuple[ToolCall, ...])
        if not calls:
            break
        history.append(
            AssistantMessage(
                content=text_of(deltas), message_id="a", timestamp="t", tool_calls=calls
            )
        )
        history += [
            ToolMessage(
                content="13:37",
                message_id="r",
                timestamp="t",
                tool_name=call.name,
                tool_call_id=call.id,
            )
            for call in calls
        ]
    assert len(history) > 1
    assert "".join(thoughts).strip()
