"""Further names of models."""

import pytest

from models_app.aliases import ModelAliases
from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelNotFound
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.settings import ModelsSettings
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.registry import make_vendor
from scripted_app.server import ScriptedModelServer

NAMED = "claude-haiku-*=scripted-plain,claude-*=qwen3:14b,small=scripted-plain"


@pytest.fixture
async def server():
    server = ScriptedModelServer()
    await server.start()
    yield server
    await server.stop()


def aliased(url, entries=NAMED):
    aliases = ModelAliases(ModelsSettings(model_aliases=entries).model_aliases)
    return ModelCatalogue(OllamaLanguageModel(url), aliases=aliases)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("claude-haiku-4-5", "scripted-plain"),
        ("claude-opus-5-5", "qwen3:14b"),
        ("small", "scripted-plain"),
    ],
)
async def test_a_name_that_no_provider_has_stands_for_the_first_model_it_matches(
    server, name, model
):
    models = aliased(server.url)

    info = await models.get(name)

    assert (info.name, models.resolve(name)[1]) == (name, model)
    assert info.capabilities == (await models.get(model)).capabilities
    assert (await models.get(name)).name == name
    await models.aclose()


async def test_a_models_own_name_goes_before_its_alias(server):
    models = aliased(server.url, "qwen3:*=scripted-plain")

    assert (await models.get("qwen3:14b")).can_think
    assert models.resolve("qwen3:14b")[1] == "qwen3:14b"
    with pytest.raises(ModelNotFound):
        await models.get("llama3:8b")
    await models.aclose()


async def test_a_vendors_model_can_be_meant_where_there_is_no_ollama(server):
    vendor = make_vendor("house", base_url=f"{server.url}/v1", key_variable=None)
    nobody = "http://127.0.0.1:9"
    aliases = ModelAliases(["claude-*=house:qwen3:14b"])
    models = ModelCatalogue(
        OllamaLanguageModel(nobody), [VendorLanguageModel(vendor)], aliases=aliases
    )

    assert (await models.get("claude-opus-5-5")).provider == "house"
    assert models.resolve("claude-opus-5-5")[1] == "qwen3:14b"
    await models.aclose()


async def test_names_without_a_star_are_listed(server):
    models = aliased(server.url)

    names = [info.name for info in (await models.listing()).models]

    assert names[-1] == "small"
    assert "qwen3:14b" in names
    assert not any("*" in name for name in names)
    await models.aclose()


async def test_without_aliases_the_setting_is_named(server):
    models = aliased(server.url, "")
    with pytest.raises(ModelNotFound, match="MOCHI_MODEL_ALIASES can have this name"):
        await models.get("claude-opus-5-5")
    await models.aclose()


@pytest.mark.parametrize("entry", ["claude-*", "=qwen3:14b", "claude-*=", "a=b*", "*"])
def test_an_entry_of_another_form_stops_the_start(entry):
    with pytest.raises(ValueError, match="must list NAME=MODEL"):
        ModelsSettings(model_aliases=entry)
