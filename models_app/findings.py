"""Checks for ``mochi-server doctor`` which providers of models have keys, and which answer."""

from collections.abc import Iterator, Mapping, Sequence

from mochi_project.app import Services
from mochi_project.configuration.config import ServerSettings
from mochi_project.console.findings import Finding, State
from mochi_project.screen_text import printable
from models_app.catalogue import ModelCatalogue, ModelListing, UnavailableProvider
from models_app.errors import ModelError
from models_app.language_model import ModelInfo
from models_app.settings import ModelsSettings
from models_app.vendors.registry import KNOWN_VENDORS

OLLAMA = "ollama"
SHOWN_MODELS = 5
LARGE_WINDOW = 8192


async def model_findings(services: Services) -> list[Finding]:
    """Ask every configured provider for its models.

    A provider that fails is broken if the configuration names it, or if no other one answers. The
    default Ollama, and a vendor whose key is in the environment by chance, may not be used at all.
    """
    settings = services.get(ModelsSettings)
    if services.get(ServerSettings).test_mode:
        return [
            Finding("models", "note", "test mode: a scripted model answers, Ollama is not used")
        ]
    listing, names = await _listing(services), services.get(ModelCatalogue).providers
    failed = {provider.provider: provider for provider in listing.unavailable}
    needed = _named(settings) if listing.models else set(names)
    by_provider: dict[str, list[ModelInfo]] = {name: [] for name in names}
    for info in listing.models:
        by_provider.setdefault(info.provider, []).append(info)
    findings = [
        _failed(failed[name], needed=name in needed)
        if name in failed
        else _answered(services, name, models, needed=name in needed)
        for name, models in by_provider.items()
    ]
    if by_provider[OLLAMA]:
        findings += await _loaded_windows(services)
    return [*findings, *_without_key(settings, by_provider)]


async def _listing(services: Services) -> ModelListing:
    try:
        return await services.get(ModelCatalogue).listing()
    except ModelError as error:  # Ollama is the only provider
        only = UnavailableProvider(provider=OLLAMA, code=error.code, message=error.message)
        return ModelListing(models=(), unavailable=(only,))


async def _loaded_windows(services: Services) -> Sequence[Finding]:
    """Advise to leave first windows to an Ollama that gives models larger ones."""
    first = services.get(ModelsSettings).first_window
    windows = await services.get(ModelCatalogue).loaded_windows()
    name = max(windows, key=lambda each: windows[each], default=None)
    if name is None or first == "ollama" or windows[name] <= max(first, LARGE_WINDOW):
        return ()
    detail = (
        f"{name} is loaded with {windows[name]} tokens; if Ollama chose that by itself, "
        f"MOCHI_FIRST_WINDOW=ollama has new sessions use it instead of {first}"
    )
    return [Finding("context windows", "note", printable(detail))]


def _named(settings: ModelsSettings) -> set[str]:
    """Return the providers that the configuration names."""
    ollama = {OLLAMA} if "ollama_host" in settings.model_fields_set else set()
    return {*settings.providers, *ollama}


def _failed(provider: UnavailableProvider, *, needed: bool) -> Finding:
    if needed:
        return Finding(_check_of(provider.provider), "broken", printable(provider.message))
    advice = "only its own models need it, others answer"
    return Finding(
        _check_of(provider.provider), "note", printable(f"{provider.message} ({advice})")
    )


def _answered(
    services: Services, name: str, models: Sequence[ModelInfo], *, needed: bool
) -> Finding:
    where = services.get(ModelCatalogue).public_host if name == OLLAMA else name
    key = _key_variable(services.get(ModelsSettings), name)
    said = f"{where} answers{f', with the key in {key}' if key else ''}"
    if models:
        shown = ", ".join(model.name for model in models[:SHOWN_MODELS])
        more = f" and {len(models) - SHOWN_MODELS} more" if len(models) > SHOWN_MODELS else ""
        return Finding(_check_of(name), "ok", printable(f"{said}: {shown}{more}"))
    advice = "; get one with `ollama pull qwen3:14b`" if name == OLLAMA else ""
    state: State = "broken" if needed else "note"
    return Finding(_check_of(name), state, f"{said}; no model there can chat{advice}")


def _without_key(settings: ModelsSettings, configured: Mapping[str, object]) -> Iterator[Finding]:
    missing = [
        f"{vendor.name} ({' or '.join(vendor.key_variables)})"
        for vendor in KNOWN_VENDORS
        if vendor.name not in configured and vendor.name not in settings.providers
    ]
    if missing:
        yield Finding(
            "other providers", "ok", f"no key is set, none is needed: {', '.join(missing)}"
        )
    for name, provider in settings.providers.items():
        if name not in configured:
            detail = f"there is no key: set {provider.api_key_env or 'its variable'}"
            yield Finding(_check_of(name), "broken", detail)


def _key_variable(settings: ModelsSettings, name: str) -> str | None:
    """Return the variable whose key a provider is asked with."""
    provider = settings.providers.get(name)
    if provider and (provider.api_key_env or provider.base_url):
        return provider.api_key_env
    known = next((vendor for vendor in KNOWN_VENDORS if vendor.name == name), None)
    variables = known.key_variables if known else ()
    return next((variable for variable in variables if settings.key_of(variable)), None)


def _check_of(provider: str) -> str:
    return "Ollama" if provider == OLLAMA else f"provider {provider}"
