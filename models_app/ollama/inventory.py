"""Caches an Ollama server's models and their capabilities."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from models_app.errors import ModelError, ModelNotFound
from models_app.expiring_cache import ExpiringCache
from models_app.language_model import ModelInfo

CACHE_SECONDS = 60.0
"""The time for which a model's facts are cached before its digest is compared again."""

_PARALLEL_SHOWS = 8
_T = TypeVar("_T")
logger = logging.getLogger(__name__)


class Tag(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the server's list: a name, and the digest of the model it stands for now.

    Attributes:
        name: The model's name.
        digest: The digest of the model that the name refers to.
        size: Its bytes on disk.
        modified_at: When it was pulled or made, in seconds since 1970; None if unknown.
    """

    name: str
    digest: str
    size: int = 0
    modified_at: int | None = None


class ModelDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A model's details (``POST /api/show``).

    ``capabilities`` are read from here and never from the list, which lacks those that only the
    model's chat template has.
    """

    format: str = ""
    family: str = ""
    parameter_size: str = ""
    quantization_level: str = ""
    capabilities: Sequence[str] = ()
    facts: Mapping[str, Any] = {}
    remote_host: str | None = None

    @property
    def context_length(self) -> int | None:
        """The longest context that the model was trained for, in tokens."""
        for prefix in (self.facts.get("general.architecture"), self.family):
            length = self.facts.get(f"{prefix}.context_length")
            if isinstance(length, int) and length > 0:
                return length
        return None


class ModelSource(Protocol):
    """Fetches facts about models; both methods raise ``ModelError``s."""

    async def fetch_tags(self) -> Sequence[Tag]:
        """Return the server's list."""
        ...

    async def fetch_details(self, name: str) -> ModelDetails:
        """Return a model's details."""
        ...


class _Known(msgspec.Struct, frozen=True):
    info: ModelInfo
    digest: str | None


class ModelInventory:
    """The models of one server.

    Details are cached by digest, so each version of a model is fetched once. Concurrent calls for
    the same thing share one request.
    """

    def __init__(self, source: ModelSource, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._shown: dict[str, ModelDetails] = {}
        self._known: ExpiringCache[_Known] = ExpiringCache(CACHE_SECONDS, clock=clock)
        self._asking: dict[str, asyncio.Task[Any]] = {}
        self._shows = asyncio.Semaphore(_PARALLEL_SHOWS)

    async def list(self) -> list[ModelInfo]:
        """Return the models that can chat. One whose details fail is left out, with a warning.

        Raises:
            ModelError: The list could not be fetched, or no details of any model in it.
        """
        tags = await self._tags()
        answers = await asyncio.gather(
            *(self._info(tag.name, tag) for tag in tags), return_exceptions=True
        )
        infos: list[ModelInfo] = []
        failures: list[ModelError] = []
        for tag, answer in zip(tags, answers, strict=True):
            if isinstance(answer, ModelInfo):
                infos.append(answer)
            elif isinstance(answer, ModelError):
                failures.append(answer)
                logger.warning("model %r is not listed: %s", tag.name, answer.message)
            else:
                raise answer
        if failures and not infos:
            raise failures[0]
        return [info for info in infos if info.can_chat]

    def recall(self, name: str) -> ModelInfo | None:
        """Return the cached result of ``describe``, or None. Thread-safe."""
        known = self._known.get(name)
        return known.info if known is not None and known.info.can_chat else None

    async def describe(self, name: str) -> ModelInfo:
        """Return a model's facts, from the cache while they are fresh.

        Raises:
            ModelNotFound: The server does not have it, or it can't chat.
            ModelError: The server can't be asked.
        """
        known = self._known.get(name)
        if known is None:
            info = await self._once(f"describe {name}", lambda: self._look_up(name))
        else:
            info = known.info
        if not info.can_chat:
            can = ", ".join(info.capabilities) or "unknown"
            raise ModelNotFound(
                f"Model '{name}' can't chat (what it can: {can}).", model=name, status=404
            )
        return info

    def forget(self, name: str) -> None:
        """Drop a name from the cache: the server has just said that it has no such model."""
        self._known.discard(name)

    async def aclose(self) -> None:
        """Cancel the requests in progress."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(self, name: str) -> ModelInfo:
        known = self._known.get_expired(name)
        tag = _find(await self._tags(), name)
        if known is not None and tag is not None and tag.digest == known.digest:
            self._known.set(name, known)
            return known.info
        try:
            return await self._info(name, tag)
        except ModelNotFound:
            self.forget(name)
            raise

    async def _info(self, name: str, tag: Tag | None) -> ModelInfo:
        """Return a model's facts; fetches its details unless its digest is cached."""
        digest = tag.digest if tag is not None else None
        shown = self._shown.get(digest) if digest else None
        if shown is None:
            shown = await self._once(f"show {name}", lambda: self._fetch_details(name))
            if digest:
                self._shown[digest] = shown
        info = model_info(tag.name if tag is not None else name, tag, shown)
        self._known.set(name, _Known(info, digest))
        return info

    async def _fetch_details(self, name: str) -> ModelDetails:
        async with self._shows:
            return await self._source.fetch_details(name)

    async def _tags(self) -> Sequence[Tag]:
        tags = await self._once("tags", self._source.fetch_tags)
        digests = {tag.digest for tag in tags}
        for gone in self._shown.keys() - digests:
            del self._shown[gone]
        return tags

    async def _once(self, key: str, ask: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Send a request, or wait for the same one that is in progress already.

        It continues if its first caller is cancelled, because others may wait for it.
        """
        task: asyncio.Task[_T] | None = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(ask(), name=f"ollama {key}")
            self._asking[key] = task
            task.add_done_callback(lambda done: self._answered(key, done))
        return await asyncio.shield(task)

    def _answered(self, key: str, task: asyncio.Task[Any]) -> None:
        if self._asking.get(key) is task:
            del self._asking[key]
        if not task.cancelled():
            task.exception()  # retrieved, as all callers may have been cancelled


def _find(tags: Sequence[Tag], name: str) -> Tag | None:
    """Find a name in the list; one without a tag means ``:latest``, as it does for Ollama."""
    wanted = with_tag(name)
    return next((tag for tag in tags if tag.name == wanted), None)


def with_tag(name: str) -> str:
    """Return a model's name as lists have it."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def is_cloud(name: str) -> bool:
    """Return whether a name is one of Ollama's cloud: ``gpt-oss:120b-cloud``, ``kimi-k2:cloud``."""
    return name.endswith(("-cloud", ":cloud"))


def model_info(name: str, tag: Tag | None, shown: ModelDetails) -> ModelInfo:
    """Combine the list's entry with the model's details."""
    is_remote = shown.remote_host is not None or is_cloud(name)
    return ModelInfo(
        name=name,
        size_mb=round((tag.size if tag is not None else 0) / 1e6, 1),
        format=shown.format,
        family=shown.family,
        parameter_size=shown.parameter_size,
        quantization_level=shown.quantization_level,
        capabilities=tuple(shown.capabilities),
        context_length=shown.context_length,
        modified_at=tag.modified_at if tag is not None else None,
        digest=tag.digest if tag is not None else "",
        is_remote=is_remote,
        continues_answers=not is_remote,
    )
