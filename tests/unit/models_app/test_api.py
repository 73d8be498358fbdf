"""The /models routes."""

from urllib.parse import quote

import pytest
from django.test import AsyncClient

from mochi_project import urls  # noqa: F401 - so that no request imports it on the loop
from models_app.catalogue import ModelCatalogue
from models_app.ollama.language_model import OllamaLanguageModel
from tests.services import OneOwner, services_of

URL = "/api/v1/models"


@pytest.fixture
async def serve(monkeypatch):
    """Put the routes in front of an Ollama server; returns a client."""
    opened = []

    def put(url):
        catalogue = ModelCatalogue(OllamaLanguageModel(url))
        opened.append(catalogue)
        monkeypatch.setattr(
            "mochi_project.app._pool", OneOwner(services_of({ModelCatalogue: catalogue}))
        )
        return AsyncClient()

    yield put
    for catalogue in opened:
        await catalogue.aclose()


async def test_models_are_listed_with_exactly_the_documented_fields(serve, fake, wire):
    fake.models = {
        "qwen3:14b": wire.shown("completion", "tools"),
        "embed:latest": wire.shown("embedding"),
    }
    answer = await serve(fake.url).get(URL)
    assert answer.status_code == 200
    assert answer.json() == {
        "models": [
            {
                "name": "qwen3:14b",
                "size_mb": 9048.2,
                "format": "gguf",
                "family": "qwen3",
                "parameter_size": "14.8B",
                "quantization_level": "Q4_K_M",
                "capabilities": ["completion", "tools"],
                "context_length": 40960,
                "provider": "ollama",
            }
        ],
        "unavailable": [],
    }


@pytest.mark.parametrize("encode", [lambda name: name, lambda name: quote(name, safe="")])
@pytest.mark.parametrize("name", ["qwen3:14b", "hf.co/user/model:Q4_K_M"])
async def test_a_models_name_may_hold_slashes_and_colons(serve, fake, wire, name, encode):
    fake.models = {name: wire.shown("completion")}
    answer = await serve(fake.url).get(f"{URL}/{encode(name)}")
    assert answer.status_code == 200
    assert answer.json()["name"] == name


@pytest.mark.parametrize("name", ["nope", "openai:gpt-5", "embed"])
async def test_a_model_that_is_not_there_is_not_found(serve, fake, wire, name):
    fake.models = {"embed:latest": wire.shown("embedding")}
    answer = await serve(fake.url).get(f"{URL}/{name}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "MODEL_NOT_FOUND"


async def test_an_ollama_that_is_not_there_is_a_bad_gateway(serve):
    client = serve("http://ann:secret@127.0.0.1:9")
    for url in (URL, f"{URL}/qwen3:14b"):
        answer = await client.get(url)
        assert answer.status_code == 502
        error = answer.json()["error"]
        assert error["code"] == "OLLAMA_UNREACHABLE"
        assert error["details"] == {"provider": "ollama", "retryable": True}
        assert "secret" not in error["message"]
