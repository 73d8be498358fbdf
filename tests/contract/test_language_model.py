"""What every language model promises: Ollama and each vendor, through its real client.

They talk to the scripted server over a real port, which refuses what the real services refuse.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from models_app.errors import (
    ContentRefused,
    ContextOverflow,
    ModelError,
    ModelNotFound,
    NetworkError,
    OllamaError,
    OllamaUnreachable,
    RateLimited,
    ServiceUnavailable,
    Unauthorized,
)
from models_app.language_model import (
    CallArgumentsDelta,
    CallDelta,
    Delta,
    Finished,
    LanguageModel,
    ModelRequest,
    Retrying,
    TextDelta,
    ThinkingDelta,
)
from models_app.providers.ollama import OllamaModel
from models_app.providers.vendor import make_vendor
from models_app.providers.vendors import VendorModels
from models_app.scripted.replies import BLOCK_END, BLOCK_START
from models_app.scripted.server import ScriptedModelServer
from sessions_app.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
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

    @property
    def is_ollama(self) -> bool:
        return self.name == "ollama"

    def open(self, url: str, **options: Any) -> OllamaModel | VendorModels:
        if self.is_ollama:
            return OllamaModel(url, **options)
        vendor = make_vendor(self.name, base_url=url + self.path, key_variable="SOME_KEY")
        return VendorModels(vendor, key_of={"SOME_KEY": KEY}.get, **options)


OLLAMA = Provider("ollama", "qwen3:14b", "scripted-plain")
ANTHROPIC = Provider("anthropic", "claude-haiku-4-5", "claude-3-haiku")
OPENAI = Provider("openai", "gpt-5.1", "gpt-4o-mini", "/v1")
GOOGLE = Provider("google", "gemini-2.5-flash", "gemini-2.0-flash")
OPENROUTER = Provider("openrouter", "qwen/qwen3-14b", "meta-llama/llama-3.2-1b-instruct", "/api/v1")
MINE = Provider("mine", "deepseek-reasoner", "scripted-plain", "/v1")
VENDORS = [ANTHROPIC, OPENAI, GOOGLE, OPENROUTER, MINE]
EVERY = [OLLAMA, *VENDORS]
# It thinks as much as it finds right, and its thinking need not be sent back.
ADAPTIVE = Provider("anthropic", "claude-sonnet-4-6", "claude-3-haiku")
# Google gives whole calls, and so does Ollama.
FRAGMENTING = [ANTHROPIC, OPENAI, OPENROUTER, MINE]

every_provider = pytest.mark.parametrize("provider", EVERY, ids=lambda each: each.name)
every_vendor = pytest.mark.parametrize("provider", VENDORS, ids=lambda each: each.name)
Opener = Callable[..., OllamaModel | VendorModels]


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedModelServer]:
    server = ScriptedModelServer(words_per_second=0)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def open_model(
    scripted: ScriptedModelServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Opener]:
    """Open a provider's models on the scripted server; retries do not wait."""
    for module in ("ollama", "vendors"):
        monkeypatch.setattr(f"models_app.providers.{module}.BACKOFFS", ((0, 0.01), (0, 0.01)))
    opened: list[OllamaModel | VendorModels] = []

    def open_model(
        provider: Provider, url: str | None = None, **options: Any
    ) -> OllamaModel | VendorModels:
        opened.append(provider.open(url or scripted.url, **options))
        return opened[-1]

    yield open_model
    for model in opened:
        await model.aclose()


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


def plain_of(value: Any) -> Any:
    return json.loads(json.dumps(value))


async def until(condition: Callable[[], bool], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


# What an answer is made of


@every_provider
async def test_an_answer_is_text_an_end_and_its_counts(
    provider: Provider, open_model: Opener
) -> None:
    said = block(says("Gr", "üße ", "🙂", "\n\n", "<b>&amp;</b>", " ", "end"))

    deltas = await ask(open_model(provider), provider, said)

    assert text_of(deltas) == "Grüße 🙂\n\n<b>&amp;</b> end"
    end = end_of(deltas)
    assert end.done_reason == "stop"
    assert end.prompt_eval_count is not None
    assert end.prompt_eval_count > 0
    assert end.eval_count is not None
    assert end.eval_count > 0


@every_provider
async def test_pieces_come_one_by_one_while_the_model_still_speaks(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    said = block(says("first", " second"), stall_seconds=30, stall_after=1)
    request = ModelRequest(model=provider.model, messages=[said])

    async with aclosing(open_model(provider).stream(request)) as batches:
        batch = await anext(batches)
        assert text_of(batch) == "first"
        assert scripted.open_streams == 1


@every_provider
@pytest.mark.parametrize("think", [True, "low", "medium", "high"])
async def test_004_CH_T2_thinking_comes_apart_from_the_text(
    provider: Provider, open_model: Opener, think: Any
) -> None:
    said = block(says("the ", "answer", reasoning=["let me ", "see"]))

    deltas = await ask(open_model(provider), provider, said, think=think)

    assert thinking_of(deltas) == "let me see"
    assert text_of(deltas) == "the answer"


@every_provider
async def test_thinking_is_asked_for_only_when_it_is_wanted(
    provider: Provider, open_model: Opener
) -> None:
    model = open_model(provider)

    thinking = {
        think: bool(thinking_of(await ask(model, provider, user("Hello"), think=think)))
        for think in (None, False, True, "low", "high")
    }

    assert thinking == {None: False, False: False, True: True, "low": True, "high": True}


@every_provider
async def test_a_model_that_can_not_think_is_not_asked_to_when_nobody_wants_it(
    provider: Provider, open_model: Opener
) -> None:
    deltas = await ask(open_model(provider), provider, user("Hello"), name=provider.plain)

    assert text_of(deltas).endswith("Hello")


# Tools


@every_provider
async def test_a_call_comes_whole_with_an_id_and_its_arguments(
    provider: Provider, open_model: Opener
) -> None:
    said = block(calls(("weather", ARGUMENTS)))

    deltas = await ask(open_model(provider), provider, said, tools=[WEATHER])

    (call,) = calls_of(deltas)
    assert call.id
    assert (call.name, call.arguments) == ("weather", ARGUMENTS)
    end_of(deltas)


@every_provider
async def test_parallel_calls_keep_their_order_and_have_ids_of_their_own(
    provider: Provider, open_model: Opener
) -> None:
    made = [("weather", ARGUMENTS), ("now", {}), ("weather", {"place": {"city": "Bern"}})]
    said = block(says("Let me look."), calls(*made))

    deltas = await ask(open_model(provider), provider, said, tools=[WEATHER, NOW])

    assert text_of(deltas) == "Let me look."
    assert [(call.name, call.arguments) for call in calls_of(deltas)] == made
    assert len({call.id for call in calls_of(deltas)}) == 3


@pytest.mark.parametrize("provider", FRAGMENTING, ids=lambda each: each.name)
async def test_arguments_are_told_as_they_come_and_add_up_to_the_call(
    provider: Provider, open_model: Opener
) -> None:
    said = block(calls(("weather", ARGUMENTS), ("now", {"zone": "CET"})))

    deltas = await ask(open_model(provider), provider, said, tools=[WEATHER, NOW])

    pieces: dict[int, list[CallArgumentsDelta]] = {}
    for delta in deltas:
        if isinstance(delta, CallArgumentsDelta):
            pieces.setdefault(delta.call_index, []).append(delta)
    assert len(pieces[0]) > 2
    for index, call in enumerate(calls_of(deltas)):
        assert {(piece.call_id, piece.name) for piece in pieces[index]} == {(call.id, call.name)}
        whole = "".join(piece.arguments for piece in pieces[index])
        assert json.loads(whole) == call.arguments


@every_provider
async def test_004_CH_T9_tools_are_offered_with_their_whole_schemas(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    await ask(open_model(provider), provider, user("Hello"), tools=[WEATHER, NOW])

    sent = json.dumps(scripted.requests[-1])
    for part in ("weather", "Tells the weather.", '"city"', '"zip"', "now"):
        assert part in sent
    assert "$ref" not in sent


@every_provider
@pytest.mark.parametrize("think", [False, True])
async def test_a_round_of_tools_goes_on_with_the_results(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer, think: bool
) -> None:
    model = open_model(provider)
    asked = block(
        calls(("weather", ARGUMENTS), ("now", {})),
        calls(("now", {"zone": "UTC"})),
        says("done"),
        per_request=True,
    )
    history: list[Message] = [asked]
    for _ in range(2):
        deltas = await ask(model, provider, *history, tools=[WEATHER, NOW], think=think)
        # What was saved is read from a file before it is sent.
        message = answered(deltas)
        history.append(message)
        history += [result(call, f"result of {call.name}") for call in message.tool_calls]

    deltas = await ask(model, provider, *history, tools=[WEATHER, NOW], think=think)

    assert text_of(deltas) == "done"
    assert json.dumps(scripted.requests[-1]).count("result of now") == 2


@every_vendor
async def test_thinking_in_a_tool_round_survives_a_file(
    provider: Provider, open_model: Opener
) -> None:
    model = open_model(provider)
    asked = block(
        says("Hm.", reasoning=["thinking ", "first"]), calls(("now", {})), stall_seconds=0
    )
    deltas = await ask(model, provider, asked, tools=[NOW], think=True)
    calls_made = [
        msgspec.json.decode(msgspec.json.encode(call), type=ToolCall) for call in calls_of(deltas)
    ]
    message = msgspec.structs.replace(answered(deltas), tool_calls=calls_made)

    again = await ask(
        model, provider, asked, message, result(calls_made[0], "noon"), tools=[NOW], think=True
    )

    assert text_of(again).endswith(asked.content)
    assert thinking_of(again)


# Histories


@every_provider
async def test_004_CH_T8_the_system_prompt_is_part_of_the_request(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    system = SystemMessage(content="Speak like a pirate.", message_id="s", timestamp="t")

    await ask(open_model(provider), provider, system, user("Hello"))

    assert "Speak like a pirate." in json.dumps(scripted.requests[-1])


@pytest.mark.parametrize("first", EVERY, ids=lambda each: f"from-{each.name}")
@pytest.mark.parametrize("second", EVERY, ids=lambda each: f"to-{each.name}")
async def test_a_conversation_with_tools_goes_on_with_another_provider(
    first: Provider, second: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    asked = block(calls(("weather", ARGUMENTS), ("now", {})))
    deltas = await ask(open_model(first), first, asked, tools=[WEATHER, NOW], think=True)
    message = answered(deltas)
    history = [asked, message, *(result(call, "sunny") for call in message.tool_calls)]

    # In the middle of the round: another worker resumes it, and its model has been changed.
    deltas = await ask(open_model(second), second, *history, tools=[WEATHER, NOW], think=True)
    assert text_of(deltas)
    # And later.
    deltas = await ask(
        open_model(second), second, *history, answered(deltas), user("And now?"), think=True
    )

    assert text_of(deltas).endswith("And now?")
    assert "Zürich" in json.dumps(scripted.requests[-1], ensure_ascii=False)


@every_vendor
@pytest.mark.parametrize(
    "call_id", ["call:1/2", "x" * 60, "ünïcode", "", "call_ok"], ids=lambda it: it[:8] or "empty"
)
async def test_ids_that_vendors_refuse_are_replaced_in_call_and_result(
    provider: Provider, open_model: Opener, call_id: str
) -> None:
    call = ToolCall(id=call_id, name="now", arguments={"zone": "UTC"})
    asking = AssistantMessage(content="", message_id="a", timestamp="t", tool_calls=(call,))
    history = [user("What time is it?"), asking, result(call, "noon"), user("Thanks")]

    deltas = await ask(open_model(provider), provider, *history, tools=[NOW])

    assert text_of(deltas).endswith("Thanks")


@every_vendor
async def test_a_history_with_gaps_is_one_that_vendors_accept(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    one = ToolCall(id="call_1", name="now", arguments={})
    two = ToolCall(id="call_2", name="weather", arguments=ARGUMENTS)
    stray = ToolCall(id="call_3", name="now", arguments={})
    history = [
        AssistantMessage(content="I speak first.", message_id="a", timestamp="t"),
        user("What time is it?"),
        AssistantMessage(content=" ", message_id="a", timestamp="t", tool_calls=(one, two)),
        result(two, "sunny"),
        result(stray, "nobody asked"),
        AssistantMessage(content="[cancelled]", message_id="a", timestamp="t", cancelled=True),
        user("Are you there?"),
        AssistantMessage(content="", message_id="a", timestamp="t"),
        user("Hello?"),
    ]

    deltas = await ask(open_model(provider), provider, *history, tools=[WEATHER, NOW])

    assert text_of(deltas).endswith("Hello?")
    sent = json.dumps(scripted.requests[-1])
    assert "interrupted, not run again" in sent
    assert "nobody asked" not in sent
    assert "[cancelled]" not in sent


# Options


@every_vendor
async def test_options_reach_the_vendor_under_its_own_names(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    options = {
        "temperature": 0.25,
        "num_predict": 321,
        "top_p": 0.5,
        "seed": 77,
        "stop": ["END"],
        "num_ctx": 4096,
        "repeat_last_n": 3,
    }

    await ask(open_model(provider), provider, user("Hi"), options=options, name=provider.plain)

    sent: Any = scripted.requests[-1]
    sent = sent.get("generationConfig", sent)
    assert sent["temperature"] == 0.25
    assert sent.get("top_p", sent.get("topP")) == 0.5
    limits = {"max_tokens", "max_completion_tokens", "maxOutputTokens"} & sent.keys()
    assert [sent[name] for name in limits] == [321]
    stops = [sent[name] for name in ("stop", "stop_sequences", "stopSequences") if name in sent]
    assert stops == [["END"]]
    if provider is not ANTHROPIC:  # which has no seed
        assert sent["seed"] == 77
    assert "4096" not in json.dumps(sent)


@every_vendor
async def test_sampling_and_thinking_together_are_no_error(
    provider: Provider, open_model: Opener
) -> None:
    options = {"temperature": 0.2, "top_p": 0.9, "max_tokens": 100, "thinking_budget": 2000}

    deltas = await ask(open_model(provider), provider, user("Hi"), options=options, think=True)

    assert thinking_of(deltas)


# Errors


OURS: dict[int, tuple[type[ModelError], bool]] = {
    400: (ServiceUnavailable, False),
    401: (Unauthorized, False),
    402: (RateLimited, False),
    403: (Unauthorized, False),
    404: (ModelNotFound, False),
    408: (ServiceUnavailable, True),
    429: (RateLimited, True),
    500: (ServiceUnavailable, True),
    502: (ServiceUnavailable, True),
    503: (ServiceUnavailable, True),
    504: (ServiceUnavailable, True),
    529: (ServiceUnavailable, True),
}


@every_vendor
@pytest.mark.parametrize("status", OURS)
async def test_a_status_is_told_by_its_code_in_the_providers_words(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer, status: int
) -> None:
    kind, retryable = OURS[status]

    with pytest.raises(ModelError) as raised:
        await ask(open_model(provider), provider, block(status=status))

    error = raised.value
    assert type(error) is kind
    assert error.retryable is retryable
    assert error.details["provider"] == provider.name
    assert error.details["status"] == status
    assert KEY not in repr(error.details) + error.message
    assert "Traceback" not in error.message
    assert error.__cause__ is None
    assert len(scripted.requests) == (3 if retryable else 1)


@every_vendor
async def test_004_CH_NT3_a_wrong_key_is_unauthorized_and_names_its_variable(
    provider: Provider, open_model: Opener
) -> None:
    with pytest.raises(Unauthorized, match="Invalid API key") as raised:
        await ask(open_model(provider), provider, block(status=401))

    assert raised.value.code == "UNAUTHORIZED"
    assert "SOME_KEY" in raised.value.message


@every_vendor
async def test_no_key_is_said_before_anything_is_sent(
    provider: Provider, scripted: ScriptedModelServer
) -> None:
    vendor = make_vendor(provider.name, base_url=scripted.url, key_variable="NO_SUCH_KEY")
    model = VendorModels(vendor, key_of={}.get)

    for asking in (
        ask(model, provider, user("Hello")),
        model.describe(provider.model),
        model.list_models(),
    ):
        with pytest.raises(Unauthorized, match="set NO_SUCH_KEY in the environment"):
            await asking

    assert not model.is_configured
    assert not scripted.requests


@every_provider
async def test_the_key_is_sent_and_told_nobody(
    provider: Provider,
    open_model: Opener,
    scripted: ScriptedModelServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    model = open_model(provider)
    deltas = await ask(model, provider, user("Hello"))
    with pytest.raises(ModelError) as raised:
        await ask(model, provider, block(error_line=f"wrong key {KEY}", status=None))

    path, headers = scripted.heads[0]
    assert path
    sent = {name: value for name, value in headers.items() if KEY in value}
    assert (sent == {}) is provider.is_ollama
    told = [repr(deltas), repr(raised.value.details), caplog.text, repr(model)]
    assert not [text for text in told if KEY in text]
    if not provider.is_ollama:
        assert KEY not in raised.value.message


@every_vendor
async def test_retry_after_is_passed_on_and_waited_for_only_when_short(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    with pytest.raises(RateLimited) as raised:
        await ask(open_model(provider), provider, block(status=429, retry_after=30))

    assert raised.value.retryable
    assert raised.value.details["retry_after"] == 30
    assert len(scripted.requests) == 1


@every_provider
async def test_what_fails_before_the_first_delta_is_tried_three_times_and_told(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    deltas: list[Delta] = []
    request = ModelRequest(model=provider.model, messages=[block(status=503)])

    with pytest.raises(ModelError):  # noqa: PT012 - what came before it counts
        async with aclosing(open_model(provider).stream(request)) as batches:
            async for batch in batches:
                deltas += batch

    assert [type(delta) for delta in deltas] == [Retrying, Retrying]
    assert len(scripted.requests) == 3


@every_provider
@pytest.mark.parametrize(
    "fault",
    [{"drop_after": 2}, {"malformed": 2}, {"error_line": 2}],
    ids=["drop", "malformed", "error"],
)
async def test_a_fault_in_mid_answer_is_an_error_and_no_second_try(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer, fault: dict[str, Any]
) -> None:
    said = block(says("one ", "two ", "three ", "four"), **fault)
    deltas: list[Delta] = []
    request = ModelRequest(model=provider.model, messages=[said])

    with pytest.raises(ModelError) as raised:  # noqa: PT012 - what came before it counts
        async with aclosing(open_model(provider).stream(request)) as batches:
            async for batch in batches:
                deltas += batch

    assert text_of(deltas) == "one two "
    assert not any(isinstance(delta, Finished | Retrying) for delta in deltas)
    assert len(scripted.requests) == 1
    if provider.is_ollama:
        assert type(raised.value) is OllamaError
    else:
        expected = NetworkError if "drop_after" in fault else ServiceUnavailable
        assert type(raised.value) is expected
        assert raised.value.retryable


@every_vendor
@pytest.mark.parametrize("after", [0, 2])
async def test_refused_content_is_an_error_of_its_own(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer, after: int
) -> None:
    said = block(says("one ", "two ", "three"), refuse_after=after)

    with pytest.raises(ContentRefused) as raised:
        await ask(open_model(provider), provider, said)

    assert not raised.value.retryable
    assert raised.value.details["provider"] == provider.name
    assert len(scripted.requests) == 1


@every_vendor
async def test_a_conversation_that_does_not_fit_is_an_overflow(
    provider: Provider, open_model: Opener
) -> None:
    with pytest.raises(ContextOverflow) as raised:
        await ask(open_model(provider), provider, user("long " * 10_000), name=provider.plain)

    assert not raised.value.retryable
    assert "40960" in raised.value.message or "8192" in raised.value.message


@every_provider
async def test_a_model_that_is_not_there_is_not_found(
    provider: Provider, open_model: Opener
) -> None:
    with pytest.raises(ModelNotFound) as raised:
        await ask(open_model(provider), provider, user("Hello"), name="no-such-model")

    assert raised.value.details["provider"] == provider.name


@every_provider
async def test_004_CH_NT4_no_connection_is_a_network_error_that_can_be_retried(
    provider: Provider, open_model: Opener
) -> None:
    with pytest.raises(ModelError) as raised:
        await ask(open_model(provider, "http://127.0.0.1:9"), provider, user("Hello"))

    assert type(raised.value) is (OllamaUnreachable if provider.is_ollama else NetworkError)
    assert raised.value.retryable
    assert "127.0.0.1:9" in raised.value.message


@every_provider
@pytest.mark.parametrize("after", [0, 1], ids=["before-the-answer", "in-mid-answer"])
async def test_004_CH_NT4_silence_is_an_error_that_can_be_retried(
    provider: Provider, open_model: Opener, after: int
) -> None:
    said = block(says("one ", "two"), stall_seconds=60, stall_after=after)
    model = open_model(provider, silence_timeout=0.3)

    with pytest.raises(ModelError) as raised:
        await ask(model, provider, said)

    assert raised.value.retryable
    assert type(raised.value) is (OllamaError if provider.is_ollama else NetworkError)


Serve = Callable[[Callable[[asyncio.StreamWriter], Awaitable[None]]], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a bare server that reads a request's head and answers as told; returns its URL."""
    servers: list[asyncio.Server] = []

    async def start(answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> str:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.readuntil(b"\r\n\r\n")
                await answer(writer)
                await writer.drain()
            finally:
                writer.close()

        servers.append(await asyncio.start_server(handle, "127.0.0.1", 0))
        return f"http://127.0.0.1:{servers[-1].sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()


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


# Stopping


@every_provider
@pytest.mark.parametrize("after", [0, 1], ids=["before-the-answer", "in-mid-answer"])
async def test_cancelling_closes_the_upstream_socket(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer, after: int
) -> None:
    said = block(says("one ", "two"), stall_seconds=60, stall_after=after)
    model = open_model(provider)
    await ask(model, provider, user("Hi"))  # what is imported first takes seconds
    task = asyncio.create_task(ask(model, provider, said))
    await until(lambda: scripted.open_streams == 1)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async with asyncio.timeout(2):
        await scripted.wait_for_open_streams(0)


@every_provider
async def test_closing_the_generator_closes_the_upstream_socket(
    provider: Provider, open_model: Opener, scripted: ScriptedModelServer
) -> None:
    said = block(says("one ", "two"), stall_seconds=60, stall_after=1)
    stream = open_model(provider).stream(ModelRequest(model=provider.model, messages=[said]))
    await anext(stream)

    await stream.aclose()

    async with asyncio.timeout(2):
        await scripted.wait_for_open_streams(0)


# Lists


@every_provider
async def test_models_are_described_once_and_listed_by_the_names_to_ask_for(
    provider: Provider, open_model: Opener
) -> None:
    model = open_model(provider)
    assert model.recall(provider.model) is None

    info = await model.describe(provider.model)
    listed = await model.list_models()

    prefix = "" if provider.is_ollama else f"{provider.name}:"
    assert info.name == f"{prefix}{provider.model}"
    assert info.provider == provider.name
    assert info.can_chat
    assert info.can_think
    assert model.recall(provider.model) is not None
    assert len(listed) in (2, 3)
    assert {each.provider for each in listed} == {provider.name}
    assert all(each.name.startswith(prefix) for each in listed)
    told = provider in (OLLAMA, ANTHROPIC, GOOGLE, OPENROUTER)
    assert info.context_length == (40960 if told else None)


@pytest.mark.parametrize("provider", [p for p in EVERY if p is not MINE], ids=lambda it: it.name)
async def test_what_a_provider_does_not_have_is_not_described(
    provider: Provider, open_model: Opener
) -> None:
    with pytest.raises(ModelNotFound) as raised:
        await open_model(provider).describe("no-such-model")

    assert raised.value.details["provider"] == provider.name


async def test_a_server_of_ones_own_may_have_models_that_it_does_not_list(
    open_model: Opener, serve: Serve
) -> None:
    async def no_list(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n")

    for model in (open_model(MINE), open_model(MINE, await serve(no_list))):
        info = await model.describe("loaded-on-demand")
        assert info.name == "mine:loaded-on-demand"
        assert info.can_chat


@every_vendor
async def test_a_vendor_that_does_not_answer_can_not_be_described(
    provider: Provider, open_model: Opener
) -> None:
    for url, silence in (("http://127.0.0.1:9", 5.0),):
        with pytest.raises(NetworkError):
            await open_model(provider, url, silence_timeout=silence).list_models()


def test_004_CH_T10_each_provider_has_its_own_client() -> None:
    kinds = {
        make_vendor(each.name, base_url="http://x", key_variable=None).kind for each in VENDORS
    }

    assert kinds == {"anthropic", "openai", "google", "openrouter", "compatible"}
