"""The model of a conversation that names none."""

import pytest

from models_app.default_model import choose_model
from models_app.errors import ModelNotFound, OllamaUnreachable
from models_app.language_model import ModelInfo


class Models:
    """What there is of models; an exception stands for an Ollama that can't be asked."""

    def __init__(self, installed, others=()):
        self._installed = installed
        self._others = others

    async def installed(self):
        if isinstance(self._installed, Exception):
            raise self._installed
        return [ModelInfo(name=name, size_mb=1) for name in self._installed]

    async def list(self):
        if isinstance(self._installed, Exception) and not self._others:
            raise self._installed
        return [ModelInfo(name=name, size_mb=0) for name in self._others]


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
    chosen, reason = await choose_model(models, configured)
    assert chosen == name
    assert reason.startswith(why)


async def test_without_a_model_it_says_how_to_get_one():
    with pytest.raises(ModelNotFound, match="ollama pull"):
        await choose_model(Models([]), None)


async def test_an_ollama_out_of_reach_is_said_where_there_is_no_other_provider():
    with pytest.raises(OllamaUnreachable):
        await choose_model(Models(UNREACHABLE), None)
