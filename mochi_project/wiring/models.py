"""Builds the language models: Ollama's, and those of the configured providers."""

from collections.abc import Callable
from functools import partial

from mochi_project.configuration.config import MochiSettings
from mochi_project.trust.contents import PROFILES
from mochi_project.trust.gate import TrustGate
from mochi_project.wiring.cluster import Cluster
from mochi_project.wiring.documents import build_profiles
from mochi_project.wiring.observers import Observers
from models_app.catalogue import AgentModels, ModelCatalogue
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.prices import NO_PRICES
from models_app.profiles import ProfileService
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.registry import KNOWN_VENDORS, make_vendor


def build_models(
    settings: MochiSettings,
    observers: Observers | None = None,
    agents: Callable[[ModelCatalogue], AgentModels] | None = None,
    cluster: Cluster | None = None,
) -> ModelCatalogue:
    """Build the catalogue of models, which connects to a provider on first use.

    Args:
        settings: The configuration.
        observers: The observers of model calls; None only logs them.
        agents: Builds the agents' models, as for ``ModelCatalogue``.
        cluster: The connections shared with other machines, if any.
    """
    silence = settings.upstream_timeout_seconds
    call_headers = observers.call_headers if observers else None
    vendors = {vendor.name: vendor for vendor in KNOWN_VENDORS}
    for name, provider in settings.providers.items():
        vendors[name] = make_vendor(
            name, base_url=provider.base_url, key_variable=provider.api_key_env
        )
    open_vendor = partial(
        VendorLanguageModel,
        silence_timeout=silence,
        key_of=settings.key_of,
        call_headers=call_headers,
    )
    return ModelCatalogue(
        OllamaLanguageModel(
            host=settings.ollama_host, silence_timeout=silence, call_headers=call_headers
        ),
        [open_vendor(vendor) for vendor in vendors.values()],
        profiles=ProfileService(build_profiles(settings, cluster), list(vendors.values())),
        profile_gate=TrustGate(settings.trust, PROFILES),
        open_vendor=open_vendor,
        observer=observers.model_calls if observers else None,
        prices=observers.usage.prices if observers else NO_PRICES,
        agents=agents,
    )
