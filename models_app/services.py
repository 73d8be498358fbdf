"""Provides the language models: Ollama's, and those of the configured providers."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from mochi_project.app import Factory, Services
from mochi_project.principal import DEFAULT_OWNER
from mochi_project.trust.contents import PROFILES
from mochi_project.trust.gate import TrustGate
from models_app.aliases import ModelAliases
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from models_app.model_calls import ModelCallHeaders, ModelCallLog, ModelCallObserver
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.prices import NO_PRICES, Prices
from models_app.profiles import ProfileService
from models_app.settings import ModelsSettings
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.registry import KNOWN_VENDORS, make_vendor
from sessions_app.store.records import Records, RecordStores


def profile_records(services: Services) -> Records:
    """Return the records of the profiles that all owners share."""
    directory = services.get(ModelsSettings).server_dir / "profiles"
    return services.get(RecordStores).open(directory, "profiles")


class SharedModels(NamedTuple):
    """Holds the models that all owners share: all but those of their agents."""

    catalogue: ModelCatalogue


def _models(services: Services) -> SharedModels:
    """Build the catalogue of models, which connects to a provider on first use."""
    settings = services.get(ModelsSettings)
    silence = settings.upstream_timeout_seconds
    call_headers = services.get(ModelCallHeaders).make
    vendors = {vendor.name: vendor for vendor in KNOWN_VENDORS}
    for name, provider in settings.providers.items():
        vendors[name] = make_vendor(
            name,
            base_url=provider.base_url,
            key_variable=provider.api_key_env,
            api=provider.api,
        )
    open_vendor = partial(
        VendorLanguageModel,
        silence_timeout=silence,
        key_of=settings.key_of,
        prompt_cache=settings.prompt_cache,
        call_headers=call_headers,
    )
    models = ModelCatalogue(
        OllamaLanguageModel(
            host=settings.ollama_host,
            silence_timeout=silence,
            call_headers=call_headers,
            keep_alive=settings.ollama_keep_alive,
        ),
        [open_vendor(vendor) for vendor in vendors.values()],
        profiles=ProfileService(profile_records(services), list(vendors.values())),
        profile_gate=TrustGate(settings.trust, PROFILES),
        open_vendor=open_vendor,
        observer=services.get(ModelCallObserver),
        prices=services.get(Prices),
        aliases=ModelAliases(settings.model_aliases),
    )
    services.on_close(models.aclose)
    return SharedModels(models)


def models_of_owner(services: Services) -> ModelCatalogue:
    """Return the shared models with the profiles of an owner, without agents."""
    settings, shared = services.get(ModelsSettings), services.get(SharedModels).catalogue
    if settings.owner == DEFAULT_OWNER:
        return shared
    directory = settings.resolved_data_dir / "profiles"
    own = services.get(RecordStores).open(directory, "profiles", owner=settings.owner)
    return shared.with_profiles(own)


def _default_model(services: Services) -> DefaultModel:
    return DefaultModel(services.get(ModelCatalogue), services.get(ModelsSettings).default_model)


FACTORIES: Mapping[type | str, Factory] = {
    ModelCallObserver: lambda _: ModelCallLog(),
    ModelCallHeaders: lambda _: ModelCallHeaders(),
    Prices: lambda _: NO_PRICES,
    SharedModels: _models,
}
OWNED: Mapping[type | str, Factory] = {
    ModelCatalogue: models_of_owner,
    DefaultModel: _default_model,
}
