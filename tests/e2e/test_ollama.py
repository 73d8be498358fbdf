"""A real Ollama, for whoever has one at ``MOCHI_E2E_OLLAMA_HOST``.

``MOCHI_E2E_OLLAMA_MODEL`` chooses the model; otherwise it is the smallest one there that can use
tools and think (``qwen3:0.6b`` will do, and is quick).
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest
from pydantic import BaseModel

from models_app.errors import ContextOverflow, ModelNotFound
from models_app.language_model import (
    CallDelta,
    Delta,
    Finished,
    ModelInfo,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    WindowGrown,
)
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.structured import Question, StructuredModels
from sessions_app.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from tests.functional.conftest import starting

HOST = os.environ.get("MOCHI_E2E_OLLAMA_HOST", "")
if not HOST:
    pytest.skip("MOCHI_E2E_OLLAMA_HOST is not set", allow_module_level=True)

NEEDED = {"completion", "tools", "thinking"}
WINDOW = 2048
TIME = ToolSpec(
    name="time_in",
    description="Tells the time in a city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)

pytestmark = [pytest.mark.e2e, pytest.mark.allow_blocking, pytest.mark.timeout(600)]


@pytest.fixture
async def ollama() -> AsyncIterator[OllamaLanguageModel]:
    model = OllamaLanguageModel(HOST)
    yield model
    await model.aclose()


@pytest.fixture
async def info(ollama: OllamaLanguageModel) -> ModelInfo:
    if name := os.environ.get("MOCHI_E2E_OLLAMA_MODEL"):
        return await ollama.describe(name)
    fit = [info for info in await ollama.list_models() if set(info.capabilities) >= NEEDED]
    if not fit:
        pytest.skip(f"no model at {ollama.public_host} has all of {sorted(NEEDED)}")
    return min(fit, key=lambda info: info.size_mb)


def user(text: str) -> UserMessage:
    return UserMessage(content=text, message_id="u", timestamp="t")


def asking(info: ModelInfo, *messages: Message, **more: object) -> ModelRequest:
    how = {"think": False, "context_window": WINDOW, **more}
    return ModelRequest(model=info.name, messages=messages, **how)  # type: ignore[arg-type]


async def ask(ollama: OllamaLanguageModel, request: ModelRequest) -> list[Delta]:
    async with aclosing(ollama.stream(request)) as batches:
        return [delta async for batch in batches for delta in batch]


def text_of(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


async def test_its_models_are_listed(ollama: OllamaLanguageModel, info: ModelInfo) -> None:
    listed = {each.name: each for each in await ollama.list_models()}

    assert info.name in listed
    assert all("completion" in each.capabilities for each in listed.values())
    assert (info.context_length or 0) >= WINDOW
    assert info.size_mb > 0
    with pytest.raises(ModelNotFound):
        await ollama.describe("no-such-model:1b")
    with pytest.raises(ModelNotFound):
        await ask(ollama, ModelRequest(model="no-such-model:1b", messages=[user("Hello")]))


async def test_it_answers_in_pieces_and_counts(
    ollama: OllamaLanguageModel, info: ModelInfo
) -> None:
    system = SystemMessage(content="You are a geographer.", message_id="s", timestamp="t")
    question = user("Name the capital of France, and say one sentence about it.")

    deltas = await ask(ollama, asking(info, system, question, options={"seed": 1}))

    assert "paris" in text_of(deltas).lower()
    assert sum(isinstance(delta, TextDelta) for delta in deltas) > 3
    last = deltas[-1]
    assert isinstance(last, Finished)
    assert last.done_reason == "stop"
    assert last.prompt_eval_count
    assert last.eval_count


@pytest.mark.parametrize("think", [False, True])
async def test_it_thinks_when_it_is_asked_to(
    ollama: OllamaLanguageModel, info: ModelInfo, think: bool
) -> None:
    deltas = await ask(ollama, asking(info, user("What is 17 + 4?"), think=think))

    assert any(isinstance(delta, ThinkingDelta) for delta in deltas) is think
    assert "<think" not in text_of(deltas)


async def test_it_calls_a_tool_and_goes_on(ollama: OllamaLanguageModel, info: ModelInfo) -> None:
    asked = user("What time is it in Bern now? Use the tool.")
    deltas = await ask(ollama, asking(info, asked, tools=[TIME]))
    calls = tuple(delta.call for delta in deltas if isinstance(delta, CallDelta))
    assert calls
    assert all(call.name == "time_in" and "city" in call.arguments for call in calls)
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

    deltas = await ask(ollama, asking(info, asked, answer, *results, tools=[TIME]))

    assert "37" in text_of(deltas)


async def test_it_stops_when_nobody_listens(ollama: OllamaLanguageModel, info: ModelInfo) -> None:
    endless = asking(info, user("Count from 1 to 5000, one number in each line."))
    async with aclosing(ollama.stream(endless)) as batches:
        async for batch in batches:
            if text_of(batch):
                break

    # One that went on would keep the next one waiting, or share the machine with it.
    async with asyncio.timeout(60):
        await ask(ollama, asking(info, user("Say: yes."), options={"num_predict": 5}))


async def test_a_request_that_is_too_long_grows_its_window(
    ollama: OllamaLanguageModel, info: ModelInfo
) -> None:
    long = user("word " * (WINDOW + 500) + "\nSay: yes.")

    deltas = await ask(ollama, asking(info, long, options={"num_predict": 5}))

    grown = [delta.context_window for delta in deltas if isinstance(delta, WindowGrown)]
    assert len(grown) == 1
    assert grown[0] > WINDOW
    assert isinstance(deltas[-1], Finished)
    assert (deltas[-1].prompt_eval_count or 0) > WINDOW


async def test_what_no_window_holds_is_an_overflow(
    ollama: OllamaLanguageModel, info: ModelInfo
) -> None:
    assert info.context_length
    longer = user("word " * (info.context_length + 1000))

    with pytest.raises(ContextOverflow) as raised:
        await ask(ollama, asking(info, longer))

    assert raised.value.details["n_prompt_tokens"] > info.context_length
    assert not raised.value.retryable


class Capital(BaseModel):
    city: str
    country: str


async def test_it_answers_in_a_form(ollama: OllamaLanguageModel, info: ModelInfo) -> None:
    models = StructuredModels(
        lambda name: (ollama, name),
        is_of_ollama=lambda _: True,
        ollama_host=ollama.public_host,
        silence_timeout=300,
    )
    question = Question(
        instructions="Give the capital.", text="The capital of France", context_window=WINDOW
    )

    answer = await models.ask(info.name, question, Capital)

    assert answer.city.lower() == "paris"


async def test_a_whole_server_talks_is_stopped_and_summarizes(
    info: ModelInfo, tmp_path: Path
) -> None:
    await asyncio.to_thread(_journey, info.name, tmp_path)


def _journey(model: str, directory: Path) -> None:
    with starting(directory) as start:
        chat = start(MOCHI_OLLAMA_HOST=HOST).chat()
        chat.http.timeout = 300
        session_id = chat.new_session(model=model, system_prompt="Answer in one sentence.")

        events = chat.say(session_id, "What is the capital of France?", think=False)
        assert [event.name for event in events][-2:] == ["message_complete", "done"]
        assert "paris" in events[-2].data["content"].lower()

        endless = {"message": "Count from 1 to 5000, one number in each line.", "detached": True}
        with chat.stream(session_id, **endless) as running:
            while next(running).name != "content_delta":
                pass
            stopped = chat.cancel(session_id).json()
            assert [event.name for event in running][-2:] == ["cancelled", "done"]
        assert stopped["stopped"]["upstream"] is True
        assert chat.messages(session_id)[-1]["cancelled"] is True

        made = chat.http.post(f"/sessions/{session_id}/summarize", json={})
        assert made.status_code == 200, made.text
        assert made.json()["summary"]
