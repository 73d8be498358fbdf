"""Which language model a model name means."""

import asyncio
import socket
from datetime import datetime

import pytest

from models_app import catalogue as module
from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelNotFound, OllamaUnreachable, Unauthorized
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.registry import KNOWN_VENDORS, make_vendor
from scripted_app.ollama_wire import NEVER_PULLED
from scripted_app.server import ScriptedModelServer


@pytest.fixture
def provider():
    return OllamaLanguageModel("http://ann:secret@localhost:11434")


@pytest.fixture
def catalogue(provider):
    return ModelCatalogue(provider)


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("qwen3:14b", "qwen3:14b"),
        ("qwen3", "qwen3"),
        ("hf.co/user/model:Q4_K_M", "hf.co/user/model:Q4_K_M"),
        ("ollama:qwen3:14b", "qwen3:14b"),
        ("ollama", "ollama"),
        ("openai", "openai"),
        ("openai/gpt-oss:20b", "openai/gpt-oss:20b"),
    ],
)
def test_a_name_means_a_model_of_ollama(catalogue, name, bare):
    model, bare_name = catalogue.resolve(name)

    assert (model.provider, bare_name) == ("ollama", bare)
    assert catalogue.is_of_ollama(name)


@pytest.mark.parametrize(
    "prefix", ["openai", "anthropic", "google", "openrouter", "profile", "agent"]
)
def test_a_provider_that_is_not_configured_is_named(catalogue, prefix):
    with pytest.raises(ModelNotFound, match=f"'{prefix}' is not configured") as raised:
        catalogue.resolve(f"{prefix}:some-model")
    assert raised.value.details["provider"] == prefix


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("openia:nosuch", "Model 'openia:nosuch' not found; did you mean openai:nosuch?"),
        ("Anthropic:nosuch", "did you mean anthropic:nosuch?"),
        ("agents:coder", "did you mean agent:coder?"),
        ("llama3:8b", "the scripted models are qwen3:14b"),
        ("openchat:7b", "the scripted models are qwen3:14b"),
        ("nosuch", "the scripted models are qwen3:14b"),
    ],
)
async def test_a_missing_model_is_said_with_what_was_meant_or_what_there_is(name, sentence):
    server = ScriptedModelServer()
    await server.start()
    catalogue = ModelCatalogue(OllamaLanguageModel(server.url))
    with pytest.raises(ModelNotFound) as refused:
        await catalogue.get(name)
    await catalogue.aclose()
    await server.stop()
    assert sentence in refused.value.message
    assert "ollama pull" not in refused.value.message


@pytest.mark.parametrize("name", ["", "  ", "ollama:", "ollama: "])
def test_an_empty_name_is_no_model(catalogue, name):
    with pytest.raises(ModelNotFound, match="can't be empty"):
        catalogue.resolve(name)


@pytest.mark.parametrize("name", ["x" * 3000, "openai:" + "x" * 3000, "profile:" + "x" * 3000])
def test_a_name_that_is_too_long_is_no_model_and_no_provider_is_asked(of_all, name):
    with pytest.raises(ModelNotFound, match="300 characters at most") as refused:
        of_all(KNOWN_VENDORS).resolve(name)
    assert len(refused.value.message) < 200


def test_the_public_address_holds_no_credentials(catalogue):
    assert catalogue.public_host == "http://localhost:11434"


async def test_models_are_listed_and_got_through_their_provider(fake, wire):
    fake.models = {"m:latest": wire.shown("completion")}
    catalogue = ModelCatalogue(OllamaLanguageModel(fake.url))
    await catalogue.warm_up()
    assert await catalogue.ping() is True
    assert [info.name for info in (await catalogue.listing()).models] == ["m:latest"]
    assert (await catalogue.get("ollama:m")).name == "m:latest"
    await catalogue.aclose()


@pytest.fixture
async def of_all(scripted):
    """Return a maker of catalogues of Ollama and these vendors."""
    made = []

    def make(vendors, ollama=None, **keys):
        models = [VendorLanguageModel(vendor, key_of=keys.get) for vendor in vendors]
        made.append(ModelCatalogue(OllamaLanguageModel(ollama or scripted.url), models))
        return made[-1]

    yield make
    for catalogue in made:
        await catalogue.aclose()


def at(name, url):
    return make_vendor(name, base_url=url, key_variable=None)


@pytest.mark.parametrize(
    ("name", "provider", "bare"),
    [
        ("openai:gpt-5.1", "openai", "gpt-5.1"),
        ("anthropic:claude-haiku-4-5", "anthropic", "claude-haiku-4-5"),
        ("google:gemini-2.5-flash", "google", "gemini-2.5-flash"),
        ("openrouter:qwen/qwen3-14b:free", "openrouter", "qwen/qwen3-14b:free"),
        ("mine:qwen3:14b", "mine", "qwen3:14b"),
    ],
)
def test_a_prefix_chooses_the_provider(of_all, name, provider, bare):
    catalogue = of_all([*KNOWN_VENDORS, at("mine", "http://localhost:1")])

    model, bare_name = catalogue.resolve(name)

    assert (model.provider, bare_name) == (provider, bare)
    assert not catalogue.is_of_ollama(name)
    with pytest.raises(ModelNotFound, match="can't be empty"):
        catalogue.resolve(f"{provider}: ")


def test_a_name_that_no_provider_has_is_a_model_of_ollama(of_all):
    catalogue = of_all(KNOWN_VENDORS)

    assert catalogue.resolve("deepseek-r1:7b")[1] == "deepseek-r1:7b"


async def test_a_provider_is_configured_when_its_key_is_there(of_all):
    catalogue = of_all([*KNOWN_VENDORS, at("mine", "http://localhost:1")], GEMINI_API_KEY="x")

    assert catalogue.providers == ["ollama", "google", "mine"]
    with pytest.raises(Unauthorized, match="OPENAI_API_KEY"):
        await catalogue.get("openai:gpt-5.1")
    # A session may be made all the same: the key can come later.
    assert await catalogue.look_up("openai:gpt-5.1") is None


async def test_every_configured_providers_models_are_listed(of_all, scripted):
    vendors = [at("openrouter", f"{scripted.url}/api/v1"), at("mine", f"{scripted.url}/v1")]

    listing = await of_all([*KNOWN_VENDORS, *vendors]).listing()

    assert [(info.provider, info.name) for info in listing.models] == [
        ("ollama", "qwen3:14b"),
        ("ollama", "scripted-plain:latest"),
        ("ollama", "scripted-vision:latest"),
        ("openrouter", "openrouter:qwen/qwen3-14b"),
        ("openrouter", "openrouter:meta-llama/llama-3.2-1b-instruct"),
        ("openrouter", "openrouter:google/gemma-3-4b-it"),
        ("mine", "mine:qwen3:14b"),
        ("mine", "mine:scripted-plain:latest"),
        ("mine", "mine:scripted-vision:latest"),
    ]
    assert listing.unavailable == []


async def test_who_does_not_answer_is_reported_beside_the_others(of_all, scripted, monkeypatch):
    monkeypatch.setattr(module, "LISTING_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        vendors = [
            at("silent", f"http://127.0.0.1:{silent.getsockname()[1]}"),
            at("gone", "http://127.0.0.1:9"),
            at("google", scripted.url),
        ]
        listing = await of_all(vendors, ollama="http://127.0.0.1:9").listing()

    assert {info.provider for info in listing.models} == {"google"}
    assert {item.provider: item.code for item in listing.unavailable} == {
        "ollama": "OLLAMA_UNREACHABLE",
        "silent": "NETWORK_ERROR",
        "gone": "NETWORK_ERROR",
    }


async def test_ollama_alone_and_out_of_reach_is_an_error(of_all):
    with pytest.raises(OllamaUnreachable):
        await of_all(KNOWN_VENDORS, ollama="http://127.0.0.1:9").listing()


async def test_ollama_alone_and_out_of_reach_is_reported_to_who_wants_no_error(of_all):
    listing = await of_all(KNOWN_VENDORS, ollama="http://127.0.0.1:9").available()

    assert listing.models == []
    assert [item.code for item in listing.unavailable] == ["OLLAMA_UNREACHABLE"]


async def test_models_tell_when_they_were_changed(of_all):
    listing = await of_all(KNOWN_VENDORS).listing()

    pulled = int(datetime.fromisoformat(NEVER_PULLED).timestamp())
    assert {info.modified_at for info in listing.models} == {pulled}


async def test_many_who_ask_at_once_share_the_clients(of_all, scripted):
    catalogue = of_all([at("anthropic", scripted.url)])

    infos = await asyncio.gather(*(catalogue.get("anthropic:claude-haiku-4-5") for _ in range(10)))

    assert {info.name for info in infos} == {"anthropic:claude-haiku-4-5"}
