"""``/v1/models`` lists models, profiles and agents, and waits for nobody for long."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from dialects_app import models_list as module
from dialects_app.models_list import CREATED, Kind, ModelOut, list_models, model_out
from models_app.catalogue import ModelCatalogue, ModelListing, UnavailableProvider
from models_app.errors import ModelNotFound, OllamaUnreachable, RateLimited
from models_app.language_model import ModelInfo
from models_app.profile_parameters import ProfileParameters
from models_app.profiles import Profile, ProfileListing

QWEN = ModelInfo(
    name="qwen3:14b",
    size_mb=9048.2,
    capabilities=("completion", "tools", "thinking"),
    context_length=40960,
    modified_at=1_760_000_000,
)
GEMMA = ModelInfo(
    name="openrouter:google/gemma-3", size_mb=0, capabilities=("completion", "vision"),
    provider="openrouter",
)  # fmt: skip
AGENT = ModelInfo(name="agent:dates", size_mb=0, capabilities=("completion",), provider="agent")
SILENT = UnavailableProvider(provider="mine", code="NETWORK_ERROR", message="'mine' is silent.")


class Profiles:
    def __init__(self, *profiles: Profile) -> None:
        self.profiles = profiles

    def list(self) -> ProfileListing:
        return ProfileListing(profiles=self.profiles)


class Catalogue:
    """The parts of a catalogue that the list is made of."""

    def __init__(
        self,
        *models: ModelInfo,
        unavailable: tuple[UnavailableProvider, ...] = (),
        profiles: tuple[Profile, ...] = (),
        agents: tuple[ModelInfo, ...] = (),
    ) -> None:
        self.listing = ModelListing(models=models, unavailable=unavailable)
        self.profiles = Profiles(*profiles)
        self.found = agents
        self.looked_through = asyncio.Event()
        self.looked_through.set()

    async def available(self) -> ModelListing:
        return self.listing

    async def get(self, name: str) -> ModelInfo:
        [own] = [each for each in self.profiles.profiles if f"profile:{each.name}" == name]
        for info in self.listing.models:
            if info.name.endswith(own.model):
                return msgspec.structs.replace(info, context_limit=own.parameters.context_limit)
        raise ModelNotFound(f"no {own.model}")

    async def agents(self) -> Any:
        await self.looked_through.wait()
        return self.found

    async def list(self, kind: Kind | None = None) -> ModelListing:
        return await list_models(cast("ModelCatalogue", self), kind)


def names(listed: ModelListing) -> list[str]:
    return [model.name for model in listed.models]


def shown(listed: ModelListing) -> list[ModelOut]:
    return [model_out(info) for info in listed.models]


def profile(name: str, model: str, provider: str = "ollama", **parameters: Any) -> Profile:
    return Profile(
        name=name, provider=provider, model=model, parameters=ProfileParameters(**parameters)
    )


def test_an_entry_has_openais_fields_and_those_that_front_ends_miss() -> None:
    entry = model_out(QWEN)

    assert (entry.id, entry.object, entry.created, entry.owned_by) == (
        "qwen3:14b",
        "model",
        1_760_000_000,
        "ollama",
    )
    assert (entry.name, entry.context_length) == ("qwen3:14b", 40960)
    assert entry.capabilities == ("completion", "tools", "thinking")
    assert entry.architecture == {"input_modalities": ["text"]}


def test_a_model_that_sees_takes_images() -> None:
    assert model_out(GEMMA).architecture == {"input_modalities": ["text", "image"]}


def test_what_has_no_known_time_has_the_same_time_always() -> None:
    assert model_out(GEMMA).created == model_out(AGENT).created == CREATED


def test_a_model_is_shown_under_the_name_that_was_asked_for() -> None:
    assert model_out(QWEN, name="ollama:qwen3:14b").id == "ollama:qwen3:14b"


async def test_models_come_first_then_profiles_then_agents() -> None:
    catalogue = Catalogue(QWEN, GEMMA, profiles=(profile("coder", "qwen3:14b"),), agents=(AGENT,))

    listed = await catalogue.list()

    assert names(listed) == [
        "qwen3:14b",
        "openrouter:google/gemma-3",
        "profile:coder",
        "agent:dates",
    ]
    assert [model.owned_by for model in shown(listed)] == [
        "ollama",
        "openrouter",
        "profile",
        "agent",
    ]
    assert listed.unavailable == []


async def test_a_profile_has_the_facts_of_its_model() -> None:
    profiles = (
        profile("short", "qwen3:14b", context_limit=8192),
        profile("sees", "google/gemma-3", "openrouter"),
        profile("gone", "removed:1b"),
    )

    listed = await Catalogue(QWEN, GEMMA, profiles=profiles).list("profile")
    short, sees, gone = shown(listed)

    assert (short.context_length, short.capabilities) == (8192, QWEN.capabilities)
    assert sees.architecture == {"input_modalities": ["text", "image"]}
    assert (gone.context_length, gone.capabilities) == (None, ("completion",))
    assert [model.owned_by for model in (short, sees, gone)] == ["profile"] * 3


async def test_a_provider_that_is_silent_is_left_out_and_named() -> None:
    listed = await Catalogue(QWEN, unavailable=(SILENT,)).list()

    assert names(listed) == ["qwen3:14b"]
    assert [each.message for each in listed.unavailable] == ["'mine' is silent."]


async def test_profiles_are_listed_while_no_provider_answers() -> None:
    catalogue = Catalogue(unavailable=(SILENT,), profiles=(profile("coder", "qwen3:14b"),))

    assert names(await catalogue.list()) == ["profile:coder"]


async def test_a_list_that_nobody_answers_for_is_an_error_and_not_empty() -> None:
    gone = UnavailableProvider(provider="ollama", code="OLLAMA_UNREACHABLE", message="Not there.")

    with pytest.raises(OllamaUnreachable, match=r"Not there\.") as caught:
        await Catalogue(unavailable=(gone, SILENT)).list()

    assert caught.value.retryable
    assert caught.value.details["provider"] == "ollama"


async def test_the_error_is_the_providers_own() -> None:
    busy = UnavailableProvider(provider="openai", code="RATE_LIMITED", message="Slow down.")

    with pytest.raises(RateLimited):
        await Catalogue(unavailable=(busy,)).list("model")


async def test_a_server_without_models_lists_none() -> None:
    assert names(await Catalogue().list()) == []


async def test_agents_that_take_long_are_left_out_and_there_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LISTING_SECONDS", 0.01)
    catalogue = Catalogue(QWEN, agents=(AGENT,))
    catalogue.looked_through.clear()

    listed = await catalogue.list()

    assert names(listed) == ["qwen3:14b"]
    assert "agents" in listed.unavailable[0].message
    catalogue.looked_through.set()
    monkeypatch.undo()
    assert names(await catalogue.list()) == ["qwen3:14b", "agent:dates"]
