"""Implements ``LanguageModel`` for profiles: sends each request to the model of its profile."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec

from models_app.default_prompt import with_default_prompt
from models_app.errors import ModelNotFound, ProfileNotFound
from models_app.expiring_cache import ExpiringCache
from models_app.language_model import AnsweredBy, Delta, LanguageModel, ModelInfo, ModelRequest
from models_app.profiles import Profile, ProfileService
from models_app.vendors.vendor import Vendor
from sessions_app.errors import ValidationFailed
from sessions_app.store.records import Records

CACHE_SECONDS = 60.0
"""Seconds for which the facts of a profile's model are cached; a request reads the profile anew."""

CONVERSATIONS = frozenset({"chat", "agent"})
"""The purposes of requests that get the profile's system prompt."""

Gate = Callable[[], Awaitable[str | None]]


async def always_open() -> str | None:
    """Let profiles name any address and key."""
    return None


class ProfileLanguageModel:
    """The models of all profiles; implements ``LanguageModel``, profiles' names being the models'.

    Args:
        profiles: The profiles.
        model_of: Returns the language model of a vendor; None is Ollama.
        gate: Returns a sentence that says why profiles must not name addresses and keys that are
            not configured; None if they may (docs/decisions/0035).

    Attributes:
        profiles: The same.
    """

    def __init__(
        self,
        profiles: ProfileService,
        model_of: Callable[[Vendor | None], LanguageModel],
        *,
        gate: Gate = always_open,
    ) -> None:
        self.profiles = profiles
        self._gate = gate
        self._model_of = model_of
        self._known: ExpiringCache[ModelInfo] = ExpiringCache(CACHE_SECONDS)

    def laid_over(self, own: Records) -> "ProfileLanguageModel":
        """Return the models of an owner's profiles, laid over these."""
        return ProfileLanguageModel(self.profiles.laid_over(own), self._model_of, gate=self._gate)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta], None]:
        """Send a request with the profile's parameters and yield batches of deltas.

        Raises:
            ProfileNotFound: There is no such profile.
            ModelError: A subclass, before the first batch or between batches.
        """
        profile = await self._get(request.model)
        model = await self._model_for(profile)
        yield [AnsweredBy(_name_of(profile))]
        async with aclosing(model.stream(apply_profile(profile, request))) as batches:
            async for batch in batches:
                yield batch

    def recall(self, model: str) -> ModelInfo | None:
        """Return the cached result of ``describe``, or None. Thread-safe."""
        return self._known.get(model)

    async def describe(self, model: str) -> ModelInfo:
        """Return the facts about a profile's model, with the profile's own settings.

        Raises:
            ProfileNotFound: There is no such profile.
            ModelError: Its model could not be described.
        """
        profile = await self._get(model)
        target = await self._model_for(profile)
        info = msgspec.structs.replace(
            await target.describe(profile.model),
            name=f"profile:{model}",
            default_think=profile.parameters.thinking or False,
            context_limit=profile.parameters.context_limit,
            system_prompt=profile.system_prompt,
        )
        self._known.set(model, info)
        return info

    async def check(self, profile: Profile) -> None:
        """Refuse a profile whose provider does not have its model, before it is saved.

        An address or a key that only the profile's file names is not used for this.

        Raises:
            ModelNotFound: With ``field`` ``"model"``.
            ModelError: The provider can't be asked.
        """
        if not self.profiles.is_configured(profile):
            return
        try:
            await (await self._model_for(profile)).describe(profile.model)
        except ModelNotFound as error:
            error.details["field"] = "model"
            raise

    async def model_at_ollama(self, model: str) -> str | None:
        """Return the model of Ollama that a profile names; None if it names another provider's.

        Raises:
            ProfileNotFound: There is no such profile.
        """
        profile = await self._get(model)
        return profile.model if self.profiles.vendor_of(profile) is None else None

    def forget(self, model: str) -> None:
        """Drop a profile from the cache: it was changed."""
        self._known.discard(model)

    async def _model_for(self, profile: Profile) -> LanguageModel:
        """Return the language model that a profile names.

        Raises:
            ModelNotFound: Its provider is not configured, or the profile must not name its address.
        """
        vendor = self.profiles.vendor_of(profile)
        if not self.profiles.is_configured(profile) and (reason := await self._refusal(profile)):
            raise ModelNotFound(
                f"The profile '{profile.name}' names an address or a key of its own. {reason}",
                provider=profile.provider,
                model=f"profile:{profile.name}",
            )
        return self._model_of(vendor)

    async def _refusal(self, profile: Profile) -> str | None:
        """Return why a profile must not name an address of its own; None if it may."""
        if await asyncio.to_thread(self.profiles.is_laid_over, profile.name):
            return "One in the folder of an owner may name those that are configured."
        return await self._gate()

    async def _get(self, name: str) -> Profile:
        try:
            return await asyncio.to_thread(self.profiles.get, name)
        except ValidationFailed:  # a name that no profile can have
            raise ProfileNotFound(name) from None


def _name_of(profile: Profile) -> str:
    """Return the name of a profile's model, with its provider except for Ollama."""
    is_ollama = profile.provider == "ollama"
    return profile.model if is_ollama else f"{profile.provider}:{profile.model}"


def apply_profile(profile: Profile, request: ModelRequest) -> ModelRequest:
    """Apply a profile's model, parameters and system prompt to a request.

    The session's own options and system prompt take precedence over the profile's. The prompt is
    for conversations only, not for other purposes.
    """
    messages = request.messages
    if profile.system_prompt and request.purpose in CONVERSATIONS:
        messages = with_default_prompt(messages, profile.system_prompt)
    return msgspec.structs.replace(
        request,
        model=profile.model,
        messages=messages,
        think=profile.parameters.thinking if request.think is None else request.think,
        options={**profile.parameters.options(), **request.options},
    )
