"""Agents as models: a request becomes a call of the agent, its result becomes the answer."""

import asyncio
from contextlib import aclosing
from decimal import Decimal

import msgspec
import pytest

from agents_app.agent import AgentDefinition
from agents_app.errors import AgentInvalid, AgentNotFound, AgentStopped
from agents_app.language_model import CACHE_SECONDS, AgentLanguageModel
from agents_app.model_choice import ModelChoice
from agents_app.sessions import AgentSessions
from models_app.catalogue import ModelCatalogue, ModelListing
from models_app.default_model import DefaultModel
from models_app.errors import ModelNotFound
from models_app.language_model import (
    CallDelta,
    Finished,
    ModelInfo,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
)
from models_app.ollama.language_model import OllamaLanguageModel
from sessions_app.attachments.media_type import PDF, PNG
from sessions_app.messages import AssistantMessage, ToolMessage, Usage, UserMessage
from sessions_app.session import append_messages
from sessions_app.store.file_repository import FileSessionRepository
from tools_app.toolset import ToolInvocation

NOW = "2026-11-21T00:00:00+00:00"
SCRIBE = AgentDefinition(name="scribe", description="x", model="qwen3:14b", valid=True)
BROKEN = AgentDefinition(name="broken", description="x", error_message="It has no tool.")


class Agents:
    """A catalogue of agents without folders."""

    def __init__(self, *agents):
        self.agents = {agent.name: agent for agent in agents}

    async def list(self):
        return self.agents

    async def names(self):
        return [*self.agents]

    async def usable(self, name):
        if name not in self.agents:
            raise AgentNotFound(name)
        if not self.agents[name].valid:
            raise AgentInvalid(name, self.agents[name].error_message)
        return self.agents[name]


class Models:
    """A catalogue with one model, which says what it was asked."""

    def __init__(self, *names):
        self.names = names
        self.capabilities = ()
        self.provider = "ollama"
        self.requests = []

    async def look_up(self, name):
        if name not in self.names:
            raise ModelNotFound(f"no {name}", model=name)
        return ModelInfo(
            name=name, size_mb=0, capabilities=self.capabilities, provider=self.provider
        )

    async def installed(self):
        return [await self.look_up(name) for name in self.names]

    async def listing(self):
        return ModelListing(models=await self.installed())

    def resolve(self, name):
        return self, name.removeprefix("ollama:")

    async def stream(self, request):
        self.requests.append(request)
        yield [TextDelta("A summary.")]
        yield [Finished("stop")]


def choice_of(models, default=None):
    return ModelChoice(models=models, default=DefaultModel(models, default))


@pytest.fixture
def models():
    return Models("qwen3:14b", "llama3:8b")


@pytest.fixture
def repository(tmp_path):
    return FileSessionRepository(tmp_path / "agent_chats")


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def model(models, repository, clock):
    return AgentLanguageModel(
        Agents(SCRIBE, BROKEN),
        AgentSessions(repository),
        choice_of(models),
        clock=lambda: clock[0],
    )


@pytest.fixture
def ran(repository):
    """Return a maker of sessions in which an agent ran, and of what the run reports."""

    def make(*messages, agent="scribe", stopped=""):
        call = ToolInvocation(
            name="agent",
            arguments={},
            session_id="0000000000",
            message_id="m",
            tool_call_id=str(len(messages)) + agent,
            call_index=0,
        )
        session_id = AgentSessions(repository).of_call(agent, "qwen3:14b", call)
        repository.update(session_id, lambda found: append_messages(found, *messages, now=NOW))
        return session_id, f"Session ID: {session_id}\n\nwhatever was done{stopped}"

    return lambda *messages, **more: asyncio.to_thread(make, *messages, **more)


def user(content):
    return UserMessage(content=content, message_id="u", timestamp=NOW)


def assistant(content, **more):
    return AssistantMessage(content=content, message_id="a", timestamp=NOW, **more)


def result(content, *, failed=False):
    return ToolMessage(
        content=content, message_id="t", timestamp=NOW, tool_name="agent", failed=failed
    )


def request(*messages, model="scribe", **more):
    return ModelRequest(model=model, messages=messages, **more)


async def answer(model, asked, deltas=None):
    deltas = [] if deltas is None else deltas
    async with aclosing(model.stream(asked)) as batches:
        async for batch in batches:
            deltas += batch
    return deltas


async def call_of(model, *messages):
    deltas = await answer(model, request(*messages))
    assert [type(delta) for delta in deltas] == [CallDelta, Finished]
    assert deltas[0].call.name == "agent"
    return deltas[0].call.arguments


async def test_what_the_user_says_becomes_a_call_of_the_agent(model):
    assert await call_of(model, user("Note milk.")) == {
        "agent": "scribe",
        "instruction": "Note milk.",
    }


async def test_what_the_agent_said_becomes_the_answer_with_its_plan_as_reasoning(model, ran):
    _, report = await ran(
        user("Note milk."),
        assistant("1. Note it.", prompt_eval_count=5, eval_count=2),
        assistant(
            "Noted.",
            prompt_eval_count=7,
            eval_count=3,
            done_reason="stop",
            usage=Usage(
                input_tokens=7, output_tokens=3, cached_tokens=4, reasoning_tokens=1, cost_usd="0.5"
            ),
        ),
    )
    assert await answer(model, request(user("Note milk."), result(report))) == [
        ThinkingDelta("1. Note it."),
        TextDelta("Noted."),
        Finished("stop", 12, 5, 4, 1, cost=Decimal("0.5")),
    ]


async def test_the_agent_goes_on_where_its_last_answer_was(model, ran):
    session_id, report = await ran(user("x"), assistant("plan"), assistant("Noted."))
    asked = await call_of(model, user("x"), result(report), assistant("Noted."), user("Also eggs."))
    assert asked["session_id"] == session_id
    assert asked["instruction"] == "Also eggs."


@pytest.mark.parametrize("agent", ["scribe", "other"])
async def test_an_agent_whose_session_tells_something_else_begins_anew(model, ran, agent):
    said = "Noted." if agent == "other" else "Noted, and then some more."
    _, report = await ran(user("x"), assistant("plan"), assistant(said), agent=agent)
    asked = await call_of(model, user("x"), result(report), assistant("Noted."), user("And eggs."))
    assert "session_id" not in asked
    assert "<assistant>\nNoted.\n</assistant>" in asked["instruction"]


async def test_an_agent_whose_session_was_deleted_begins_anew(model):
    gone = result("Session ID: 0123456789\n\nx")
    asked = await call_of(model, user("x"), gone, assistant("Noted."), user("Also eggs."))
    assert "session_id" not in asked


async def test_a_run_that_broke_off_shows_what_was_said_and_then_the_error(model, ran):
    _, report = await ran(
        user("x"),
        assistant("plan"),
        assistant("I be", interrupted=True),
        stopped="\n\n[The agent stopped: The network is down.]",
    )
    seen = []
    with pytest.raises(AgentStopped, match="The network is down") as raised:
        await answer(model, request(user("x"), result(report, failed=True)), seen)
    assert seen == [ThinkingDelta("plan"), TextDelta("I be")]
    assert raised.value.details["agent_name"] == "scribe"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("Error: The disk is full.", "The disk is full."),
        ("Session ID: 0123456789\n\nx", "has no session '0123456789'"),
    ],
)
async def test_a_call_that_failed_is_an_error_with_a_text_that_can_be_retried(
    model, content, reason
):
    seen = []
    with pytest.raises(AgentStopped, match=reason):
        await answer(model, request(user("x"), result(content)), seen)
    assert reason in seen[0].text


async def test_a_run_without_an_answer_is_an_error(model, ran):
    _, report = await ran(user("x"), assistant("plan"), assistant(""))
    with pytest.raises(AgentStopped, match="gave no answer"):
        await answer(model, request(user("x"), result(report)))


async def test_summaries_are_asked_of_the_model_that_the_agent_runs_with(model, models):
    deltas = await answer(model, request(user("Sum up."), purpose="summary"))
    assert deltas == [TextDelta("A summary."), Finished("stop")]
    assert [asked.model for asked in models.requests] == ["qwen3:14b"]


async def test_an_agent_is_described_as_a_model_that_chats_and_takes_no_tools(model, clock):
    assert model.recall("scribe") is None
    info = await model.describe("scribe")
    assert (info.name, info.provider) == ("agent:scribe", "agent")
    assert info.can_chat
    assert not info.can_call_tools
    assert not info.takes_window
    assert model.recall("scribe") == info
    clock[0] = CACHE_SECONDS + 1
    assert model.recall("scribe") is None


@pytest.mark.parametrize(
    ("capabilities", "sees"), [((), True), (("completion", "vision"), True), (("tools",), False)]
)
async def test_an_agent_sees_what_the_model_sees_that_it_runs_with(
    model, models, capabilities, sees
):
    models.capabilities = capabilities

    described = await model.describe("scribe")

    assert described.can_see is sees
    assert not described.can_call_tools
    assert [info.can_see for info in await model.list_models()] == [sees]


@pytest.mark.parametrize(
    ("provider", "takes_pdf"), [("ollama", False), ("anthropic", True), ("mine", False)]
)
async def test_an_agent_takes_the_files_that_its_model_takes(model, models, provider, takes_pdf):
    models.provider = provider

    described = await model.describe("scribe")

    assert described.provider == "agent"
    assert described.takes(PNG)
    assert described.takes(PDF) is takes_pdf


async def test_agents_that_can_be_used_are_listed(model):
    assert [info.name for info in await model.list_models()] == ["agent:scribe"]


@pytest.mark.parametrize(
    ("name", "hint"), [("scrbe", "did you mean agent:scribe?"), ("zzzzzz", "zzzzzz'.")]
)
async def test_an_unknown_agent_is_an_unknown_model_with_a_suggestion(model, name, hint):
    with pytest.raises(ModelNotFound) as raised:
        await model.describe(name)
    assert raised.value.message.endswith(hint)
    assert raised.value.details == {"provider": "agent", "model": f"agent:{name}"}
    with pytest.raises(ModelNotFound):
        await answer(model, request(user("x"), model=name))


async def test_an_agent_that_is_wrong_says_why(model):
    with pytest.raises(AgentInvalid, match="It has no tool"):
        await model.describe("broken")
    with pytest.raises(AgentInvalid):
        await answer(model, request(user("x"), model="broken"))


@pytest.mark.parametrize(
    ("own", "calling", "default", "chosen"),
    [
        ("qwen3:14b", "llama3:8b", None, "qwen3:14b"),
        ("gone:1b", "llama3:8b", None, "llama3:8b"),
        (None, "llama3:8b", "qwen3:14b", "llama3:8b"),
        (None, "agent:scribe", "llama3:8b", "llama3:8b"),
        ("qwen3:14b", "agent:scribe", None, "qwen3:14b"),
        ("gone:1b", "agent:scribe", "llama3:8b", "llama3:8b"),
        ("agent:other", "agent:scribe", "llama3:8b", "llama3:8b"),
    ],
)
async def test_an_agent_runs_with_its_own_model_or_its_callers_or_the_default(
    models, own, calling, default, chosen
):
    agent = msgspec.structs.replace(SCRIBE, model=own)
    choice = choice_of(models, default)
    name, info = await choice.choose(agent, calling)
    assert (name, info.name) == (chosen, chosen)


@pytest.mark.parametrize(
    ("own", "default"), [(None, None), ("agent:other", None), (None, "agent:scribe")]
)
async def test_an_agent_without_a_model_gets_the_one_that_new_conversations_get(own, default):
    agent = msgspec.structs.replace(SCRIBE, model=own)
    name, _ = await choice_of(Models("m:1", "m:2"), default).choose(agent, "agent:scribe")
    assert name == "m:1"
    with pytest.raises(ModelNotFound, match="no model to talk to"):
        await choice_of(Models()).choose(agent, "agent:scribe")


async def test_a_missing_model_is_named_where_there_is_no_other(models):
    agent = msgspec.structs.replace(SCRIBE, model="gone:1b")
    with pytest.raises(ModelNotFound, match="no gone:1b"):
        await choice_of(models).choose(agent, "agent:scribe")


async def test_the_catalogue_resolves_agents_by_their_prefix(repository):
    ollama = OllamaLanguageModel("http://localhost:1")

    def make(models):
        choice = choice_of(models, "agent:scribe")
        return AgentLanguageModel(Agents(SCRIBE), AgentSessions(repository), choice)

    catalogue = ModelCatalogue(ollama).with_agents(make)
    found, name = catalogue.resolve("agent:scribe")
    assert isinstance(found, AgentLanguageModel)
    assert name == "scribe"
    assert not catalogue.is_of_ollama("agent:scribe")
    assert [info.name for info in await catalogue.agents()] == ["agent:scribe"]
    assert catalogue.resolve("ollama:agent:latest")[1] == "agent:latest"
