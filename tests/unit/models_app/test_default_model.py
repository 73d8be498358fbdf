"""The model of a conversation that names none."""

import pytest

from models_app.catalogue import ModelListing
from models_app.default_model import CACHE_SECONDS, DefaultModel
from models_app.errors import ModelNotFound, OllamaUnreachable
from models_app.language_model import ModelInfo


class Models:
    """What there is of models; an exception stands for an Ollama that can't be asked."""

    def __init__(self, installed, others=()):
        self._installed = installed
        self._others = others

    def are(self, installed):
        self._installed = installed

    async def installed(self):
        if isinstance(self._installed, Exception):
            raise self._installed
        return [ModelInfo(name=name, size_mb=1) for name in self._installed]

    async def listing(self):
        if isinstance(self._installed, Exception) and not self._others:
            raise self._installed
        return ModelListing(models=[ModelInfo(name=name, size_mb=0) for name in self._others])


UNREACHABLE = OllamaUnreachable("Ollama can't be reached.")


@pytest.mark.parametrize(
    ("models", "configured", "name", "why"),
    [
        (Models(["a", "b"]), "c", "c", "MOCHI_DEFAULT_MODEL"),
        (Models(["a"]), None, "a", "the only one installed; -m or"),
        (Models(["a", "b"], ["openai:x"]), None, "a", "the first of 2 installed; -m or"),
        (Models([], ["openai:x"]), None, "openai:x", "the only one available; -m or"),
        (Models(UNREACHABLE, ["x:1", "x:2"]), None, "x:1", "the first of 2 available; -m or"),
    ],
)
async def test_the_choice_is_said(models, configured, name, why):
    chosen, reason = await DefaultModel(models, configured).choose()
    assert chosen == name
    assert reason.startswith(why)


async def test_without_a_model_it_says_how_to_get_one():
    with pytest.raises(ModelNotFound, match="ollama pull"):
        await DefaultModel(Models([]), None).name()


async def test_an_ollama_out_of_reach_is_said_where_there_is_no_other_provider():
    with pytest.raises(OllamaUnreachable):
        await DefaultModel(Models(UNREACHABLE), None).name()


async def test_where_it_need_not_be_known_a_missing_model_is_none():
    assert await DefaultModel(Models(UNREACHABLE), None).name_if_known() is None
    assert await DefaultModel(Models(["a"]), None).name_if_known() == "a"


async def test_with_the_setting_nobody_is_asked():
    assert await DefaultModel(Models(UNREACHABLE), "a").name() == "a"


async def test_providers_are_asked_again_when_the_choice_is_old():
    now, models = 0.0, Models(["a"])
    default = DefaultModel(models, None, clock=lambda: now)
    assert await default.name() == "a"
    models.are(["b"])
    now = CACHE_SECONDS
    assert await default.name() == "a"
    now += 1
    assert await default.name() == "b"


async def test_a_failure_is_not_kept():
    models = Models(UNREACHABLE)
    default = DefaultModel(models, None)
    with pytest.raises(OllamaUnreachable):
        await default.name()
    models.are(["a"])
    assert await default.name() == "a"
