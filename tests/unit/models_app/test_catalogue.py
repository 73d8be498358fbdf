"""Which language model a model name means."""

import pytest

from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelNotFound
from models_app.providers.ollama import OllamaModel


@pytest.fixture
def provider():
    return OllamaModel("http://ann:secret@localhost:11434")


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
def test_a_name_means_a_model_of_ollama(catalogue, provider, name, bare):
    assert catalogue.resolve(name) == (provider, bare)


@pytest.mark.parametrize("prefix", ["openai", "anthropic", "google", "openrouter", "profile"])
def test_a_provider_that_is_not_configured_is_named(catalogue, prefix):
    with pytest.raises(ModelNotFound, match=f"'{prefix}' is not configured") as raised:
        catalogue.resolve(f"{prefix}:some-model")
    assert raised.value.details["provider"] == prefix


@pytest.mark.parametrize("name", ["", "  ", "ollama:", "ollama: "])
def test_an_empty_name_is_no_model(catalogue, name):
    with pytest.raises(ModelNotFound, match="can't be empty"):
        catalogue.resolve(name)


def test_the_public_address_holds_no_credentials(catalogue):
    assert catalogue.public_host == "http://localhost:11434"


async def test_models_are_listed_and_got_through_their_provider(fake, wire):
    fake.models = {"m:latest": wire.shown("completion")}
    catalogue = ModelCatalogue(OllamaModel(fake.url))
    await catalogue.warm_up()
    assert await catalogue.ping() is True
    assert [info.name for info in await catalogue.list()] == ["m:latest"]
    assert (await catalogue.get("ollama:m")).name == "m:latest"
    await catalogue.aclose()
