"""Resolves model names to language models, and lists the models of all providers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import Any, Self, TypeVar

import msgspec
from msgspec.structs import replace

from models_app.aliases import ModelAliases
from models_app.errors import ModelError, ModelNotFound, NetworkError, OllamaUnreachable
from models_app.language_model import AgentModels, LanguageModel, ModelInfo
from models_app.missing_models import explained
from models_app.model_calls import ModelCallLog, ModelCallObserver, ObservedModel
from models_app.names import permitted, require_usable
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.prices import NO_PRICES, Prices
from models_app.profile_language_model import Gate, ProfileLanguageModel, always_open
from models_app.profiles import Profile, ProfileService
from models_app.vendors.language_model import VendorLanguageModel
from models_app.vendors.registry import KNOWN_VENDORS
from models_app.vendors.vendor import Vendor
from models_app.window_sizes import LoadedWindow
from sessions_app.session import AGENT_PREFIX
from sessions_app.store.records import Records

LOOK_UP_SECONDS = 5.0
LISTING_SECONDS = 2.0
"""Seconds that a provider may take to list its models; then the others are shown without it."""

_OLLAMA = "ollama"
_PROFILE = "profile"
_AGENT = AGENT_PREFIX.removesuffix(":")
_NAMES = frozenset({_PROFILE, _AGENT, *(vendor.name for vendor in KNOWN_VENDORS)})

logger = logging.getLogger(__name__)

Found = TypeVar("Found")


class UnavailableProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider whose models could not be listed, and why."""

    provider: str
    code: str
    message: str


class ModelListing(msgspec.Struct, frozen=True, kw_only=True):
    """The models of every configured provider, Ollama's first, and the providers that failed."""

    models: Sequence[ModelInfo]
    unavailable: Sequence[UnavailableProvider] = ()


class ModelCatalogue:
    """All models that this server can use, by name.

    A plain name (``qwen3:14b``, ``hf.co/user/model:Q4_K_M``) means Ollama, and so does
    ``ollama:<name>``; the name of another provider in front of a colon means that one, and
    ``profile:<name>`` what the profile names, and ``agent:<name>`` that agent. A plain name that
    Ollama does not have may be an alias of another one.

    Args:
        ollama: The Ollama server.
        vendors: The other providers, configured or not.
        profiles: The named model configurations; None if there are none.
        profile_gate: The gate for ``ProfileLanguageModel``.
        open_vendor: Opens the models of a vendor that only a profile names.
        observer: Sees every call of every model that the catalogue hands out.
        prices: Their prices.
        aliases: Further names of models.
    """

    def __init__(
        self,
        ollama: OllamaLanguageModel,
        vendors: Sequence[VendorLanguageModel] = (),
        *,
        profiles: ProfileService | None = None,
        profile_gate: Gate = always_open,
        open_vendor: Callable[[Vendor], VendorLanguageModel] = VendorLanguageModel,
        observer: ModelCallObserver | None = None,
        prices: Prices = NO_PRICES,
        aliases: ModelAliases | None = None,
    ) -> None:
        self._aliases = aliases or ModelAliases()
        self._observer = observer or ModelCallLog()
        self._prices = prices
        self._ollama = ollama
        self._observed_ollama = self._observed(ollama, _OLLAMA, ollama.public_host)
        self._vendors = {each.vendor.name: each for each in vendors}
        self._open_vendor = open_vendor
        self._opened = {each.vendor: each for each in vendors}
        self._observed_vendors = {
            each.vendor: self._observed(each, each.vendor.name, each.vendor.base_url)
            for each in vendors
        }
        self._profiles = (
            ProfileLanguageModel(profiles, self._model_of, gate=profile_gate) if profiles else None
        )
        self._agents: AgentModels | None = None

    def with_agents(self, agents: "Callable[[ModelCatalogue], AgentModels]") -> Self:
        """Return a catalogue of the same providers with agents' models, which are made for it."""
        own = copy(self)
        own._agents = agents(own)  # noqa: SLF001 - of this class
        return own

    def with_profiles(self, records: Records) -> Self:
        """Return a catalogue of the same providers with an owner's profiles laid over these."""
        own = copy(self)
        own._profiles = self._profiles and self._profiles.laid_over(records)  # noqa: SLF001
        return own

    @property
    def public_host(self) -> str:
        """Ollama's URL without credentials, safe to show."""
        return self._ollama.public_host

    @property
    def profiles(self) -> ProfileService:
        """The named configurations.

        Raises:
            RuntimeError: The catalogue was made without.
        """
        if self._profiles is None:
            raise RuntimeError("this catalogue has no profiles")
        return self._profiles.profiles

    @property
    def providers(self) -> list[str]:
        """The names of the configured providers, Ollama first."""
        return [_OLLAMA, *(each.vendor.name for each in self._configured())]

    async def installed(self) -> Sequence[ModelInfo]:
        """Return Ollama's models that can chat, without asking any other provider.

        Raises:
            ModelError: Ollama can't be asked.
        """
        return permitted(await self._ollama.list_models())

    async def listing(self) -> ModelListing:
        """List the models of every configured provider, concurrently.

        A provider that fails or takes longer than two seconds is listed with its error.

        Raises:
            ModelError: Ollama is the only provider, and can't be asked.
        """
        if not self._configured():
            return ModelListing(models=await self._with_aliases(await self._ollama.list_models()))
        return await self.available()

    async def available(self) -> ModelListing:
        """List as ``listing`` does, but report Ollama's failure even if it is the only provider."""
        vendors = self._configured()
        asked: list[tuple[str, OllamaLanguageModel | VendorLanguageModel]] = [
            (_OLLAMA, self._ollama),
            *((each.vendor.name, each) for each in vendors),
        ]
        answers = await asyncio.gather(*(_list_in_time(*each) for each in asked))
        models = [
            info
            for answer in answers
            if not isinstance(answer, UnavailableProvider)
            for info in answer
        ]
        return ModelListing(
            models=await self._with_aliases(models),
            unavailable=[answer for answer in answers if isinstance(answer, UnavailableProvider)],
        )

    async def agents(self) -> Sequence[ModelInfo]:
        """Return the agents that can be used as models, by name; the first call takes longer.

        ``listing`` has none of them, as it has no profiles.
        """
        return permitted(await self._agents.list_models()) if self._agents is not None else ()

    async def get(self, name: str) -> ModelInfo:
        """Return a model's facts.

        Raises:
            ModelNotFound: No provider has it, or it can't chat.
            Unauthorized: There is no key for its provider.
            ModelError: The provider can't be asked.
        """
        model, bare_name = self.resolve(name)
        try:
            info = await model.describe(bare_name)
        except (ModelNotFound, OllamaUnreachable) as error:
            if model is not self._observed_ollama:
                raise
            if self._aliases.note_missing(name):
                return await self.get(name)
            if isinstance(error, ModelNotFound):
                has_aliases = bool(self._aliases)
                raise explained(error, name, prefixes=_NAMES, has_aliases=has_aliases) from error
            raise
        return info if self._aliases.meant(name) == name else replace(info, name=name)

    async def look_up(self, name: str, *, must_exist: bool = True) -> ModelInfo | None:
        """Return a model's facts; None while its provider can't be reached.

        Sessions can be worked on while a provider is unreachable.

        Args:
            name: The model's name.
            must_exist: Whether a missing model is an error; if not, it is None too.

        Raises:
            ModelNotFound: No provider has it, or it can't chat.
        """
        try:
            return await _unless_unreachable(self.get(name), name)
        except ModelNotFound:
            if must_exist:
                raise
        return None

    async def check_profile(self, profile: Profile, *, replaces: bool = False) -> None:
        """Refuse a profile that must not be saved, or whose provider does not have its model.

        Profiles can be saved while their provider is unreachable.

        Raises:
            ValidationFailed, ProfileNotFound: As ``ProfileService.check`` raises them.
            ModelNotFound: With ``field`` ``"model"``.
        """
        await asyncio.to_thread(self.profiles.check, profile, replaces=replaces)
        if self._profiles is not None:
            await _unless_unreachable(self._profiles.check(profile), profile.model)

    def resolve(self, name: str) -> tuple[LanguageModel, str]:
        """Return the language model that a name means, and the model's name there.

        An alias stands for its model once ``get`` has found that no provider has its name.

        Raises:
            ModelNotFound: The name is empty or too long, or its provider is not there.
            ModelNotPermitted: The key of the request is for other models.
        """
        require_usable(name)
        name = self._aliases.meant(name)
        prefix, colon, rest = name.partition(":")
        if colon and prefix in _NAMES and not self._has(prefix):
            raise ModelNotFound(
                f"Model '{name}' is not available: the provider '{prefix}' is not configured.",
                provider=prefix,
                model=name,
            )
        if colon and prefix == _PROFILE and self._profiles is not None:
            return self._profiles, rest
        if colon and prefix == _AGENT and self._agents is not None:
            return self._agents, rest
        vendor = self._vendors.get(prefix) if colon else None
        bare_name = rest if vendor is not None or (colon and prefix == _OLLAMA) else name
        if not bare_name.strip():
            raise ModelNotFound("A model's name can't be empty.", model=name)
        if vendor is None:
            return self._observed_ollama, bare_name
        return self._observed_vendors[vendor.vendor], bare_name

    async def loaded_window(self, name: str) -> LoadedWindow | None:
        """Return the window that Ollama has loaded a model with, also for a profile of one.

        None for other providers' models, and if Ollama does not say within 0.3 seconds.
        """
        try:
            model, bare_name = self.resolve(name)
            if self._profiles is not None and model is self._profiles:
                target = await self._profiles.model_at_ollama(bare_name)
            else:
                target = bare_name if model is self._observed_ollama else None
        except ModelError:
            return None  # the look-up of the model says why
        if target is None:
            return None
        return await (await self._ollama.loaded_models()).window_of(target)

    async def loaded_windows(self) -> Mapping[str, int]:
        """Return the windows of the models that Ollama has loaded, as far as it says."""
        return await (await self._ollama.loaded_models()).all() or {}

    async def note_window(self, name: str, window: int | None) -> None:
        """Remember the window that Ollama accepted for one of its models, past ``resolve``."""
        (await self._ollama.loaded_models()).note(name, window)

    def is_of_ollama(self, name: str) -> bool:
        """Return whether a name means a model of Ollama, and no profile of one."""
        try:
            return self.resolve(name)[0] is self._observed_ollama
        except ModelNotFound:
            return False

    async def pass_to_ollama(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Send Ollama a request that is no chat, and return its answer, in JSON.

        Raises:
            ModelError: Ollama can't be asked, or refuses.
        """
        return await self._ollama.ask(path, body)

    async def ping(self) -> bool:
        """Return whether Ollama answers within a second. Never raises a connection error."""
        return await self._ollama.ping()

    async def warm_up(self) -> None:
        """Import and open Ollama's clients. Called once the server listens."""
        await self._ollama.warm_up()

    async def aclose(self) -> None:
        """Close every connection."""
        for vendor in self._opened.values():
            await vendor.aclose()
        await self._ollama.aclose()

    def forget_profile(self, name: str) -> None:
        """Drop a profile from the cache: it was changed or removed."""
        if self._profiles is not None:
            self._profiles.forget(name)

    async def _with_aliases(self, models: Sequence[ModelInfo]) -> Sequence[ModelInfo]:
        """Return the models, and those that have aliases without ``*``, under these names."""
        listed = {info.name for info in models}
        names = [name for name in self._aliases.names if name not in listed]
        aliased = await asyncio.gather(*(self.look_up(name, must_exist=False) for name in names))
        return permitted([*models, *(info for info in aliased if info is not None)])

    def _has(self, prefix: str) -> bool:
        if prefix == _AGENT:
            return self._agents is not None
        return prefix in self._vendors or (prefix == _PROFILE and self._profiles is not None)

    def _model_of(self, vendor: Vendor | None) -> LanguageModel:
        if vendor is None:
            return self._observed_ollama
        if vendor not in self._opened:
            models = self._opened[vendor] = self._open_vendor(vendor)
            self._observed_vendors[vendor] = self._observed(models, vendor.name, vendor.base_url)
        return self._observed_vendors[vendor]

    def _observed(self, model: LanguageModel, provider: str, url: str) -> ObservedModel:
        return ObservedModel(
            model, provider=provider, observer=self._observer, url=url, prices=self._prices
        )

    def _configured(self) -> Sequence[VendorLanguageModel]:
        return [each for each in self._vendors.values() if each.is_configured]


async def _unless_unreachable(looking_up: Awaitable[Found], name: str) -> Found | None:
    """Wait for a provider's metadata of a model; None if the provider is unreachable.

    Raises:
        ModelNotFound: The provider does not have it.
    """
    try:
        async with asyncio.timeout(LOOK_UP_SECONDS):
            return await looking_up
    except ModelNotFound:
        raise
    except TimeoutError:
        logger.warning("the provider of model %r is silent", name)
    except ModelError as error:
        logger.warning("model %r can't be looked up at the moment: %s", name, error.message)
    return None


async def _list_in_time(
    name: str, provider: OllamaLanguageModel | VendorLanguageModel
) -> list[ModelInfo] | UnavailableProvider:
    try:
        async with asyncio.timeout(LISTING_SECONDS):
            return await provider.list_models()
    except ModelError as error:
        return UnavailableProvider(provider=name, code=error.code, message=error.message)
    except TimeoutError:
        return UnavailableProvider(
            provider=name,
            code=NetworkError.code,
            message=f"'{name}' did not answer within {LISTING_SECONDS:g} seconds.",
        )
