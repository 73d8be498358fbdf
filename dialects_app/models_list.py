"""Lists the models of all providers, the profiles and the agents as OpenAI's ``/v1/models`` does.

In addition to OpenAI's four fields there are those that front ends need: the display name, the
context length, the capabilities and the modalities.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from models_app.catalogue import LISTING_SECONDS, ModelCatalogue, ModelListing, UnavailableProvider
from models_app.errors import (
    ModelError,
    NetworkError,
    OllamaError,
    OllamaUnreachable,
    RateLimited,
    ServiceUnavailable,
    Unauthorized,
)
from models_app.language_model import ModelInfo
from models_app.names import is_permitted
from models_app.profiles import Profile
from sessions_app.errors import MochiError

Kind = Literal["model", "profile", "agent"]
"""The kinds of models; ``?kind=`` chooses one of them."""

CREATED = 1_700_000_000
"""``created`` of what has no known time of modification: clients cache by it."""

logger = logging.getLogger(__name__)


class ModelOut(msgspec.Struct, frozen=True, kw_only=True):
    """A model in OpenAI's format.

    Attributes:
        id: The name for requests.
        object: Always ``model``.
        created: When it was last changed, in seconds since 1970; a constant if that is unknown.
        owned_by: Its provider, ``profile`` or ``agent``.
        name: The display name.
        context_length: The longest context, in tokens; null if unknown.
        capabilities: ``completion``, ``tools``, ``thinking``, ``vision``, ...
        architecture: The kinds of input that it accepts.
    """

    id: str
    object: Literal["model"] = "model"
    created: int = CREATED
    owned_by: str
    name: str
    context_length: int | None = None
    capabilities: Sequence[str] = ()
    architecture: Mapping[str, Any]


class ModelListOut(msgspec.Struct, frozen=True, kw_only=True):
    """All models, on one page."""

    object: Literal["list"] = "list"
    data: Sequence[ModelOut]


def model_out(info: ModelInfo, *, name: str | None = None) -> ModelOut:
    """Return a model's entry.

    Args:
        info: The model's metadata.
        name: The requested name, if it differs from that in the metadata.
    """
    shown = name or info.name
    kind, colon, _ = shown.partition(":")
    return ModelOut(
        id=shown,
        created=info.modified_at or CREATED,
        owned_by=kind if colon and kind in ("profile", "agent") else info.provider,
        name=shown,
        context_length=context_length(info),
        capabilities=info.capabilities,
        architecture=_architecture(info.capabilities),
    )


async def list_models(models: ModelCatalogue, kind: Kind | None = None) -> ModelListing:
    """List everything that can be used as a model: models, then profiles, then agents.

    Providers that don't respond within two seconds are left out.

    Args:
        models: All models.
        kind: The kind to list; None lists all.

    Raises:
        ModelError: The list is empty because all providers failed.
    """
    kinds: Mapping[Kind, Callable[[], Awaitable[ModelListing]]] = {
        "model": models.available,
        "profile": partial(_profiles, models),
        "agent": partial(_agents, models),
    }
    listings = await asyncio.gather(*(kinds[each]() for each in kinds if kind in {None, each}))
    found = [info for listing in listings for info in listing.models]
    missing = [each for listing in listings for each in listing.unavailable]
    if missing and not found:
        raise _error(missing[0])
    return ModelListing(models=found, unavailable=missing)


def context_length(info: ModelInfo) -> int | None:
    """Return the longest request that a model takes, in tokens; None if unknown."""
    lengths = [each for each in (info.context_length, info.context_limit) if each]
    return min(lengths, default=None)


def _architecture(capabilities: Sequence[str]) -> Mapping[str, Any]:
    return {"input_modalities": ["text", "image"] if "vision" in capabilities else ["text"]}


async def _profile_info(models: ModelCatalogue, profile: Profile) -> ModelInfo:
    """Return the facts of a profile, as a look at it alone does; less if its provider is silent."""
    name = f"profile:{profile.name}"
    try:
        async with asyncio.timeout(LISTING_SECONDS):
            return replace(await models.get(name), name=name)
    except (MochiError, TimeoutError):
        limit = profile.parameters.context_limit
        return ModelInfo(name=name, size_mb=0, capabilities=("completion",), context_limit=limit)


async def _profiles(models: ModelCatalogue) -> ModelListing:
    found = (await asyncio.to_thread(models.profiles.list)).profiles
    mine = (profile for profile in found if is_permitted(f"profile:{profile.name}"))
    infos = await asyncio.gather(*(_profile_info(models, profile) for profile in mine))
    return ModelListing(models=infos)


_looking: set[asyncio.Task[Any]] = set()
"""Looks at agents that go on in the background: the next request has what they find."""


async def _agents(models: ModelCatalogue) -> ModelListing:
    """List the agents. Importing their modules for the first time may take long."""
    looking = asyncio.create_task(models.agents())
    _looking.add(looking)
    looking.add_done_callback(_forget_task)
    done, _ = await asyncio.wait([looking], timeout=LISTING_SECONDS)
    if done:
        return ModelListing(models=looking.result())
    late = UnavailableProvider(
        provider="agent",
        code=NetworkError.code,
        message=f"The agents were not looked through within {LISTING_SECONDS:g} seconds.",
    )
    return ModelListing(models=(), unavailable=(late,))


def _forget_task(task: asyncio.Task[Any]) -> None:
    _looking.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the agents can't be listed", exc_info=error)


_ERRORS: Mapping[str, type[ModelError]] = {
    error.code: error
    for error in (NetworkError, OllamaError, OllamaUnreachable, RateLimited, Unauthorized)
}


def _error(missing: UnavailableProvider) -> ModelError:
    kind = _ERRORS.get(missing.code, ServiceUnavailable)
    return kind(missing.message, provider=missing.provider)
