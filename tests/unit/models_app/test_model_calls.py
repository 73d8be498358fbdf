"""Every model call is observed: its purpose, tokens, times and outcome."""

import asyncio
import logging
from contextlib import aclosing
from decimal import Decimal

import msgspec
import pytest
from pydantic import BaseModel

from models_app.catalogue import ModelCatalogue
from models_app.errors import OllamaUnreachable, ServiceUnavailable
from models_app.language_model import (
    CallArgumentsDelta,
    Finished,
    ModelRequest,
    Retrying,
    TextDelta,
    ThinkingDelta,
    WindowGrown,
)
from models_app.model_calls import (
    Caller,
    ModelCallLog,
    ModelCallObservers,
    ObservedModel,
    call_models_for,
)
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.profiles import Profile, ProfileService
from models_app.structured import Question, StructuredModels
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.registry import make_vendor

DONE = Finished("stop", 12, 3, 8, 2)


class Calls:
    """An observer that keeps what it sees."""

    def __init__(self):
        self.seen = []
        self.started = []

    async def model_calling(self, start):
        self.started.append(start)

    def model_called(self, call):
        self.seen.append(call)

    @property
    def only(self):
        (call,) = self.seen
        return call


class Speaker:
    """A language model that yields batches, or raises."""

    def __init__(self, *batches):
        self.batches = batches
        self.asked = False

    async def stream(self, request):
        self.asked = True
        for batch in self.batches:
            if isinstance(batch, Exception):
                raise batch
            yield batch


@pytest.fixture
def calls():
    return Calls()


def observed(calls, *batches):
    return ObservedModel(Speaker(*batches), provider="mine", observer=calls)


async def ask(model, name="m", **more):
    async with aclosing(model.stream(ModelRequest(model=name, messages=[], **more))) as batches:
        return [batch async for batch in batches]


async def test_a_call_is_seen_once_with_its_tokens_and_times(calls):
    batches = [[TextDelta("Hi")], [TextDelta("!")], [DONE]]

    assert await ask(observed(calls, *batches), purpose="agent") == batches

    call = calls.only
    assert (call.start.provider, call.start.model, call.start.purpose) == ("mine", "m", "agent")
    assert (call.outcome, call.tokens) == ("ok", DONE)
    assert 0 <= call.seconds_to_first_token <= call.seconds


class OneDollar:
    """Knows the prices of one provider."""

    def cost_of(self, provider, model, tokens):
        return Decimal(1) if (provider, model, tokens) == ("mine", "m", DONE) else None


@pytest.mark.parametrize(("model", "cost"), [("m", Decimal(1)), ("other", None)])
async def test_the_end_of_a_call_has_its_cost_where_it_is_known(calls, model, cost):
    speaker = Speaker([TextDelta("Hi")], [TextDelta("!"), DONE])
    observed = ObservedModel(speaker, provider="mine", observer=calls, prices=OneDollar())
    done = msgspec.structs.replace(DONE, cost=cost)

    assert await ask(observed, model) == [[TextDelta("Hi")], [TextDelta("!"), done]]
    assert calls.only.tokens == done


async def test_a_call_says_for_whom_it_is_made_and_so_do_those_of_its_agents(calls):
    async def of_a_turn():
        call_models_for("s1", "t1")
        await ask(observed(calls, [DONE]))
        await asyncio.create_task(of_an_agent())

    async def of_an_agent():
        call_models_for("agents-session", "agents-turn")
        await ask(observed(calls, [DONE]), purpose="agent")

    await asyncio.create_task(of_a_turn())
    await ask(observed(calls, [DONE]))

    assert [call.start.caller for call in calls.seen] == [Caller("s1", "t1")] * 2 + [None]


async def test_a_call_is_announced_with_its_request_and_ends_as_the_same_one(calls):
    await ask(observed(calls, [DONE]))

    assert calls.started == [calls.only.start]
    assert calls.only.start.request.model == "m"


async def test_a_call_that_an_observer_refuses_is_not_made_and_has_no_end(calls):
    class Refusing(Calls):
        async def model_calling(self, start):
            raise ServiceUnavailable("not today")

    model, behind, speaker = Refusing(), Calls(), Speaker([DONE])
    observers = ModelCallObservers([calls, model, behind])
    with pytest.raises(ServiceUnavailable, match="not today"):
        await ask(ObservedModel(speaker, provider="mine", observer=observers))

    assert (speaker.asked, len(calls.started), behind.started) == (False, 1, [])
    assert [*calls.seen, *model.seen, *behind.seen] == []


async def test_all_observers_see_a_call(calls):
    other = Calls()

    await ask(observed(ModelCallObservers([calls, other]), [DONE]))

    assert calls.only is other.only


@pytest.mark.parametrize("first", [[TextDelta("Hi")], [ThinkingDelta("Hm")], [DONE]])
async def test_the_first_output_is_timed_and_retries_are_none(calls, first):
    await ask(observed(calls, [Retrying("busy")], [WindowGrown(8192)]))
    await ask(observed(calls, [Retrying("busy")], first))

    silent, spoken = calls.seen
    assert silent.seconds_to_first_token is None
    assert spoken.seconds_to_first_token is not None


@pytest.mark.parametrize("before", [[], [[TextDelta("Hi")]]])
async def test_an_error_is_seen_by_its_code(calls, before):
    with pytest.raises(ServiceUnavailable):
        await ask(observed(calls, *before, ServiceUnavailable("no")))

    assert (calls.only.outcome, calls.only.tokens) == ("SERVICE_UNAVAILABLE", Finished())


async def test_a_call_that_is_stopped_is_seen_as_cancelled(calls):
    model = observed(calls, [TextDelta("Hi")], [DONE])
    async with aclosing(model.stream(ModelRequest(model="m", messages=[]))) as batches:
        await anext(batches)

    assert calls.only.outcome == "cancelled"


async def test_what_came_is_counted_wherever_it_went(calls):
    taken = []

    class Pushing:
        async def stream(self, request):
            yield [ThinkingDelta("Hm")]
            for batch in ([TextDelta("Hello")], [CallArgumentsDelta(0, "c", "add", "{}")]):
                if not request.sink(batch):
                    yield batch
            yield [TextDelta("!")]

    def take(batch):
        taken.append(batch)
        return type(batch[0]) is TextDelta

    model = ObservedModel(Pushing(), provider="mine", observer=calls)
    request = ModelRequest(model="m", messages=[], sink=take)
    async with aclosing(model.stream(request)) as batches:
        yielded = [batch async for batch in batches]

    assert (len(taken), len(yielded)) == (2, 3)
    assert calls.only.streamed == len("Hm" + "Hello" + "{}" + "!")


async def test_a_cancelled_task_is_seen_as_cancelled(calls):
    class Silent:
        async def stream(self, request):
            await asyncio.Event().wait()
            yield []

    model = ObservedModel(Silent(), provider="mine", observer=calls)
    asking = asyncio.create_task(ask(model))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert calls.only.outcome == "cancelled"


async def test_an_answer_that_ended_before_its_reader_left_is_whole(calls):
    async with aclosing(observed(calls, [DONE]).stream(ModelRequest(model="m", messages=[]))) as it:
        await anext(it)

    assert calls.only.outcome == "ok"


async def test_a_defect_is_seen_too(calls):
    with pytest.raises(ZeroDivisionError):
        await ask(observed(calls, ZeroDivisionError()))

    assert calls.only.outcome == "INTERNAL_ERROR"


async def test_a_call_is_one_line_in_the_log(caplog):
    caplog.set_level(logging.INFO, logger="models_app.model_calls")

    await ask(observed(ModelCallLog(), [TextDelta("secret")], [DONE]))

    (record,) = caplog.records
    assert record.getMessage() == "model called"
    assert (record.purpose, record.outcome, record.prompt_tokens) == ("chat", "ok", 12)
    assert (record.cached_tokens, record.reasoning_tokens) == (8, 2)
    assert "secret" not in str(vars(record))


async def test_the_catalogue_hands_out_observed_models_only(calls, fake, wire, data_dir):
    fake.answers = [wire.stream_of(wire.text("Hi"), wire.DONE)]
    vendor = make_vendor("mine", base_url="http://127.0.0.1:1/v1", key_variable=None)
    profiles = ProfileService(data_dir / "profiles", [vendor])
    await asyncio.to_thread(profiles.create, Profile(name="local", provider="ollama", model="m"))
    catalogue = ModelCatalogue(
        OllamaLanguageModel(fake.url),
        [VendorLanguageModel(vendor)],
        profiles=profiles,
        observer=calls,
    )

    for name in ("m", "profile:local"):
        await ask(*catalogue.resolve(name))
    await catalogue.aclose()

    assert [(call.start.provider, call.start.model, call.outcome) for call in calls.seen] == [
        ("ollama", "m", "ok")
    ] * 2
    assert {call.start.url for call in calls.seen} == {fake.url}
    assert isinstance(catalogue.resolve("mine:m")[0], ObservedModel)


class Animal(BaseModel):
    name: str


@pytest.mark.allow_blocking  # the ollama library reads its version while it is imported
async def test_each_attempt_at_a_structured_answer_is_seen(calls, fake, wire):
    def answer(content):
        return wire.refusal(
            200, {**wire.DONE, "message": {"role": "assistant", "content": content}}
        )

    fake.answers = [answer("no JSON"), answer('{"name": "cat"}')]
    catalogue = ModelCatalogue(OllamaLanguageModel(fake.url))
    models = StructuredModels(
        catalogue.resolve,
        is_of_ollama=catalogue.is_of_ollama,
        ollama_host=fake.url,
        silence_timeout=5,
        observer=calls,
    )
    question = Question(instructions="Describe it.", text="A cat.", purpose="summary")

    assert await models.ask("m", question, Animal) == Animal(name="cat")

    assert [(call.start.purpose, call.outcome, call.tokens.eval_count) for call in calls.seen] == [
        ("summary", "ok", 41)
    ] * 2


@pytest.mark.allow_blocking
async def test_a_structured_answer_that_fails_is_seen_by_its_code(calls):
    models = StructuredModels(
        lambda name: (None, name),
        is_of_ollama=lambda _: True,
        ollama_host="http://127.0.0.1:1",
        silence_timeout=5,
        observer=calls,
    )
    with pytest.raises(OllamaUnreachable):
        await models.ask("m", Question(instructions="", text=""), Animal)

    assert (calls.only.start.purpose, calls.only.outcome) == ("structured", "OLLAMA_UNREACHABLE")
