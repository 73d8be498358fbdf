"""The providers under test, and what their tests say to them and read from them."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from models_app.language_model import (
    CallDelta,
    Delta,
    Finished,
    LanguageModel,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
)
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.registry import make_vendor
from models_app.vendors.vendor import Api
from scripted_app.replies import BLOCK_END, BLOCK_START
from sessions_app.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

KEY = "sk-canary-0123456789abcdef"
WEATHER = ToolSpec(
    name="weather",
    description="Tells the weather.",
    parameters={
        "type": "object",
        "properties": {
            "place": {"$ref": "#/$defs/Place"},
            "days": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["place"],
        "$defs": {
            "Place": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
                "required": ["city"],
            }
        },
    },
)
ARGUMENTS = {"place": {"city": "Zürich", "zip": "8001"}, "days": [1, 2, 3]}
NOW = ToolSpec(name="now", description="Tells the time.", parameters={"type": "object"})


@dataclass(frozen=True)
class Provider:
    """One provider under test: its names of the thinking model and of the plain one."""

    name: str
    model: str
    plain: str
    path: str = ""
    api: Api = "auto"

    @property
    def wire(self) -> str:
        return "responses" if self.api == "responses" else self.name

    @property
    def is_ollama(self) -> bool:
        return self.name == "ollama"

    def open(self, url: str, **options: Any) -> OllamaLanguageModel | VendorLanguageModel:
        if self.is_ollama:
            return OllamaLanguageModel(url, **options)
        address = url + self.path
        vendor = make_vendor(self.name, base_url=address, key_variable="SOME_KEY", api=self.api)
        return VendorLanguageModel(vendor, key_of={"SOME_KEY": KEY}.get, **options)


OLLAMA = Provider("ollama", "qwen3:14b", "scripted-plain")
ANTHROPIC = Provider("anthropic", "claude-haiku-4-5", "claude-3-haiku")
OPENAI = Provider("openai", "gpt-5.1", "gpt-4o-mini", "/v1", "chat")
RESPONSES = Provider("openai", "gpt-5.1", "gpt-4o-mini", "/v1", "responses")
GOOGLE = Provider("google", "gemini-2.5-flash", "gemini-2.0-flash")
OPENROUTER = Provider("openrouter", "qwen/qwen3-14b", "meta-llama/llama-3.2-1b-instruct", "/api/v1")
MINE = Provider("mine", "deepseek-reasoner", "scripted-plain", "/v1")
VENDORS = [ANTHROPIC, OPENAI, RESPONSES, GOOGLE, OPENROUTER, MINE]
EVERY = [OLLAMA, *VENDORS]
# It thinks as much as it finds right, and its thinking need not be sent back.
ADAPTIVE = Provider("anthropic", "claude-sonnet-4-6", "claude-3-haiku")
# Google gives whole calls, and so does Ollama.
FRAGMENTING = [ANTHROPIC, OPENAI, RESPONSES, OPENROUTER, MINE]

every_provider = pytest.mark.parametrize("provider", EVERY, ids=lambda each: each.wire)
every_thinker = pytest.mark.parametrize(
    "provider", [*EVERY, ADAPTIVE], ids=lambda each: f"{each.wire}-{each.model}"
)
every_vendor = pytest.mark.parametrize("provider", VENDORS, ids=lambda each: each.wire)
Opener = Callable[..., OllamaLanguageModel | VendorLanguageModel]
Serve = Callable[[Callable[[asyncio.StreamWriter], Awaitable[None]]], Awaitable[str]]


def user(text: str) -> UserMessage:
    return UserMessage(content=text, message_id="u", timestamp="t")


def block(*messages: dict[str, Any], **instruction: Any) -> UserMessage:
    """Return a user message that scripts the answer."""
    if messages:
        instruction["messages"] = list(messages)
    return user(f"Do it. {BLOCK_START}{json.dumps(instruction)}{BLOCK_END}")


def says(*pieces: str, **more: Any) -> dict[str, Any]:
    return {"text_message": {"text": list(pieces), **more}}


def calls(*named: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"tool_call": [{"name": name, "args": arguments} for name, arguments in named]}


def answered(deltas: Sequence[Delta], text: str = "") -> AssistantMessage:
    """Return an answer as the engine saves it."""
    made = tuple(delta.call for delta in deltas if isinstance(delta, CallDelta))
    return AssistantMessage(
        content=text or text_of(deltas), message_id="a", timestamp="t", tool_calls=made
    )


def result(call: ToolCall, content: str) -> ToolMessage:
    return ToolMessage(
        content=content, message_id="r", timestamp="t", tool_name=call.name, tool_call_id=call.id
    )


async def ask(
    model: LanguageModel, provider: Provider, *messages: Message, **more: Any
) -> list[Delta]:
    request = ModelRequest(model=more.pop("name", provider.model), messages=messages, **more)
    async with aclosing(model.stream(request)) as batches:
        return [delta async for batch in batches for delta in batch]


def text_of(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def thinking_of(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta))


def calls_of(deltas: Sequence[Delta]) -> list[ToolCall]:
    return [delta.call for delta in deltas if isinstance(delta, CallDelta)]


def end_of(deltas: Sequence[Delta]) -> Finished:
    assert isinstance(deltas[-1], Finished)
    assert sum(isinstance(delta, Finished) for delta in deltas) == 1
    return deltas[-1]


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def read_body(
    open_model: Opener,
    serve: Serve,
    body: str | bytes,
    provider: Provider = MINE,
    kind: str = "text/event-stream",
) -> list[Delta]:
    """Return what a model reads from a server that answers with this body."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n"
        writer.write(head.encode() + (body if isinstance(body, bytes) else body.encode()))

    url = await serve(answer)
    return await ask(open_model(provider, url), provider, user("Hello"), tools=[NOW, WEATHER])
