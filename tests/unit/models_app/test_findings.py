"""What ``doctor`` says of the windows that models are loaded with."""

import pytest

from mochi_project.configuration.config import ServerSettings
from models_app.catalogue import ModelCatalogue
from models_app.findings import model_findings
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.settings import ModelsSettings


class Services:
    def __init__(self, catalogue, settings):
        self.found = {
            ModelCatalogue: catalogue,
            ModelsSettings: settings,
            ServerSettings: ServerSettings(),
        }

    def get(self, kind):
        return self.found[kind]


@pytest.fixture
async def advice(fake, wire):
    """Return what is said of windows, for a server with these and settings."""
    fake.models = {"m:latest": wire.shown("completion")}
    catalogue = ModelCatalogue(OllamaLanguageModel(fake.url))

    async def find(loaded, **settings):
        fake.loaded = loaded
        services = Services(catalogue, ModelsSettings(**settings))
        found = await model_findings(services)
        return [(item.state, item.detail) for item in found if item.check == "context windows"]

    yield find
    await catalogue.aclose()


async def test_a_large_window_that_is_loaded_brings_the_advice_to_leave_it_to_ollama(advice):
    ((state, detail),) = await advice({"a:1": 4096, "m:latest": 32768})
    assert state == "note"
    assert "m:latest is loaded with 32768 tokens" in detail
    assert "MOCHI_FIRST_WINDOW=ollama" in detail


@pytest.mark.parametrize(
    ("loaded", "settings"),
    [
        ({}, {}),
        ({"m:latest": 8192}, {}),
        ({"m:latest": 32768}, {"first_window": "ollama"}),
        ({"m:latest": 32768}, {"first_window": 65536}),
    ],
)
async def test_without_one_or_with_the_setting_there_is_no_advice(advice, loaded, settings):
    assert await advice(loaded, **settings) == []
