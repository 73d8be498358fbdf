"""What is known of models, and how rarely the server is asked for it."""

import asyncio
import json

import msgspec
import pytest

from models_app.errors import ModelNotFound, OllamaError, OllamaUnreachable
from models_app.language_model import ModelInfo, ModelRequest
from models_app.ollama.inventory import CACHE_SECONDS, ModelDetails, ModelInventory, Tag, model_info
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.ollama.wire import encode_request


class Source:
    """A server's answers, and how often it was asked."""

    def __init__(self, **models):
        self.tags = [Tag(name=name, digest=f"d-{name}", size=10**9) for name in models]
        self.shown = models
        self.asked = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def fetch_tags(self):
        self.asked.append("tags")
        await self.gate.wait()
        return self.tags

    async def fetch_details(self, name):
        self.asked.append(name)
        await self.gate.wait()
        shown = self.shown.get(name) or self.shown.get(f"{name}:latest")
        if shown is None:
            raise ModelNotFound(f"model '{name}' not found", model=name)
        if isinstance(shown, Exception):
            raise shown
        return shown


def can(*capabilities, length=40960):
    facts = {"general.architecture": "qwen3", "qwen3.context_length": length}
    return ModelDetails(family="qwen3", capabilities=capabilities, facts=facts)


@pytest.fixture
def clock():
    class Clock:
        now = 1000.0

        def __call__(self):
            return self.now

    return Clock()


async def test_the_list_and_a_model_are_what_the_server_says(ollama, fake, wire):
    fake.models = {
        "qwen3:14b": wire.shown("completion", "tools", "thinking"),
        "embed:latest": wire.shown("embedding"),
        "hf.co/user/model:Q4_K_M": wire.shown("completion", context_length=None),
    }
    qwen, other = await ollama.list_models()
    assert qwen == ModelInfo(
        name="qwen3:14b",
        size_mb=9048.2,
        format="gguf",
        family="qwen3",
        parameter_size="14.8B",
        quantization_level="Q4_K_M",
        capabilities=("completion", "tools", "thinking"),
        context_length=40960,
        digest="digest-of-qwen3:14b",
        continues_answers=True,
    )
    assert (other.name, other.context_length) == ("hf.co/user/model:Q4_K_M", None)
    assert await ollama.describe("qwen3:14b") == qwen
    assert fake.asked("/api/tags") == 1
    assert fake.asked("/api/show") == 3


async def test_a_name_without_a_tag_means_the_latest(clock):
    inventory = ModelInventory(Source(**{"qwen3:latest": can("completion")}), clock=clock)
    assert (await inventory.describe("qwen3")).name == "qwen3:latest"


async def test_a_model_is_described_from_memory_for_a_minute(clock):
    source = Source(**{"a:1": can("completion")})
    inventory = ModelInventory(source, clock=clock)
    for _ in range(3):
        await inventory.describe("a:1")
    assert source.asked == ["tags", "a:1"]


async def test_after_a_minute_only_the_digest_is_looked_up(clock):
    source = Source(**{"a:1": can("completion")})
    inventory = ModelInventory(source, clock=clock)
    await inventory.describe("a:1")
    clock.now += CACHE_SECONDS + 1
    await inventory.describe("a:1")
    await inventory.describe("a:1")
    assert source.asked == ["tags", "a:1", "tags"]


async def test_a_model_that_was_pulled_anew_is_shown_again(clock):
    source = Source(**{"a:1": can("completion")})
    inventory = ModelInventory(source, clock=clock)
    await inventory.describe("a:1")
    source.tags = [Tag(name="a:1", digest="new", size=1)]
    source.shown["a:1"] = can("completion", "tools", length=1024)
    clock.now += CACHE_SECONDS + 1
    info = await inventory.describe("a:1")
    assert (info.context_length, info.capabilities) == (1024, ("completion", "tools"))


async def test_a_model_that_was_removed_is_not_found_after_a_minute(clock):
    source = Source(**{"a:1": can("completion")})
    inventory = ModelInventory(source, clock=clock)
    await inventory.describe("a:1")
    source.tags, source.shown = [], {}
    clock.now += CACHE_SECONDS + 1
    with pytest.raises(ModelNotFound):
        await inventory.describe("a:1")


async def test_a_model_that_chat_did_not_find_is_asked_for_again(ollama, fake, wire):
    fake.models = {"m:latest": wire.shown("completion")}
    await ollama.describe("m")
    fake.models = {}
    fake.answers = [wire.refusal(404, {"error": "model 'm' not found"})]
    stream = ollama.stream(wire.request())
    with pytest.raises(ModelNotFound):
        await anext(stream)
    with pytest.raises(ModelNotFound, match="not found"):
        await ollama.describe("m")


async def test_a_model_outside_the_list_is_still_asked_for(clock):
    source = Source(**{"Qwen3:latest": can("completion")})
    source.shown["qwen3:LATEST"] = can("completion")
    info = await ModelInventory(source, clock=clock).describe("qwen3:LATEST")
    assert info.name == "qwen3:LATEST"


async def test_a_model_that_cannot_chat_is_not_found(clock):
    inventory = ModelInventory(Source(**{"e:1": can("embedding")}), clock=clock)
    for _ in range(2):
        with pytest.raises(ModelNotFound, match=r"can't chat.*embedding"):
            await inventory.describe("e:1")


async def test_the_same_question_at_the_same_time_is_asked_once(clock):
    source = Source(**{"a:1": can("completion"), "b:1": can("completion")})
    source.gate.clear()
    inventory = ModelInventory(source, clock=clock)
    asking = [asyncio.create_task(inventory.describe("a:1")) for _ in range(5)]
    listing = [asyncio.create_task(inventory.list()) for _ in range(3)]
    await asyncio.sleep(0)
    asking[0].cancel()
    source.gate.set()
    infos = await asyncio.gather(*asking[1:])
    await asyncio.gather(*listing)
    assert {info.name for info in infos} == {"a:1"}
    assert sorted(source.asked) == ["a:1", "b:1", "tags"]


async def test_one_model_that_cannot_be_shown_costs_only_itself(clock, caplog):
    source = Source(**{"a:1": can("completion"), "b:1": OllamaError("the disk is on fire")})
    infos = await ModelInventory(source, clock=clock).list()
    assert [info.name for info in infos] == ["a:1"]
    assert "the disk is on fire" in caplog.text


async def test_a_list_of_which_nothing_can_be_shown_is_an_error(clock):
    source = Source(**{"b:1": OllamaError("the disk is on fire")})
    with pytest.raises(OllamaError, match="on fire"):
        await ModelInventory(source, clock=clock).list()


async def test_an_empty_server_lists_nothing(clock):
    assert await ModelInventory(Source(), clock=clock).list() == []


@pytest.mark.parametrize("length", [None, 0, -1, "40960", 1.5, [1]])
def test_a_context_length_of_another_kind_is_unknown(length):
    assert can(length=length).context_length is None


async def test_a_model_without_facts_is_listed_without_a_context_length(ollama, fake, wire):
    shown = wire.shown("completion")
    shown["model_info"] = {}
    fake.models = {"m:latest": shown}
    (info,) = await ollama.list_models()
    assert info.context_length is None


@pytest.mark.parametrize("answer", [[], {}, {"capabilities": 1}, {"model_info": [], "details": 1}])
async def test_an_answer_of_another_shape_is_an_error_of_ollamas(ollama, fake, answer):
    fake.models = {"m:latest": answer or [0]}
    with pytest.raises(OllamaError):
        await ollama.describe("m")


async def test_a_server_that_is_not_there_is_unreachable():
    model = OllamaLanguageModel("http://127.0.0.1:9")
    with pytest.raises(OllamaUnreachable):
        await model.list_models()
    with pytest.raises(OllamaUnreachable):
        await model.describe("m")
    await model.aclose()


async def test_closing_ends_what_is_being_asked(clock):
    source = Source(**{"a:1": can("completion")})
    source.gate.clear()
    inventory = ModelInventory(source, clock=clock)
    asking = asyncio.create_task(inventory.describe("a:1"))
    await asyncio.sleep(0)
    await inventory.aclose()
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.mark.parametrize(
    ("name", "is_theirs"),
    [("gpt-oss:120b-cloud", True), ("kimi:cloud", True), ("cloud:8b", False), ("qwen3", False)],
)
def test_models_of_the_cloud_get_no_window(name, is_theirs):
    request = ModelRequest(model=name, messages=[])
    sent = json.loads(encode_request(request, 4096)).get("options", {})
    assert sent == ({} if is_theirs else {"num_ctx": 4096})
    shown = can("completion")
    assert model_info(name, None, shown).takes_window is not is_theirs
    elsewhere = msgspec.structs.replace(shown, remote_host="https://ollama.com")
    assert not model_info(name, None, elsewhere).takes_window
