"""Which models an Ollama server has and what they can do, asked as rarely as is safe."""

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
"""How long a model's facts are cached before its digest is compared again."""

_PARALLEL_SHOWS = 8
_T = TypeVar("_T")
logger = logging.getLogger(__name__)


class Tag(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the server's list: a name and the digest of what it stands for at the moment."""

    name: str
    digest: str
    size: int = 0


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What the server shows of one model.

    ``capabilities`` come from here and never from the list, which overlooks those that are only
    in a model file's chat template.
    """

    format: str = ""
    family: str = ""
    parameter_size: str = ""
    quantization_level: str = ""
    capabilities: Sequence[str] = ()
    facts: Mapping[str, Any] = {}

    @property
    def context_length(self) -> int | None:
        """The longest context the model was made for, in tokens."""
        for prefix in (self.facts.get("general.architecture"), self.family):
            length = self.facts.get(f"{prefix}.context_length")
            if isinstance(length, int) and length > 0:
                return length
        return None


class ModelSource(Protocol):
    """Who can be asked about models; both raise ``ModelError``s."""

    async def fetch_tags(self) -> Sequence[Tag]:
        """Return the server's list."""
        ...

    async def fetch_shown(self, name: str) -> Shown:
        """Return what the server shows of a model."""
        ...


class _Known(msgspec.Struct, frozen=True):
    info: ModelInfo
    digest: str | None


class ModelInventory:
    """What is known of a server's models.

    What is shown of a model is kept by its digest, so it is asked once for as long as the model
    stays what it is. Questions for the same thing at the same time are asked once.
    """

    def __init__(self, source: ModelSource, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._shown: dict[str, Shown] = {}
        self._known: ExpiringCache[_Known] = ExpiringCache(CACHE_SECONDS, clock=clock)
        self._asking: dict[str, asyncio.Task[Any]] = {}
        self._shows = asyncio.Semaphore(_PARALLEL_SHOWS)

    async def list(self) -> list[ModelInfo]:
        """Return the models that can chat. One that can't be shown is left out, with a warning.

        Raises:
            ModelError: The list can't be had, or nothing in it can be shown.
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
        """Return what ``describe`` told lately, without asking; None if nothing. Thread-safe."""
        known = self._known.get(name)
        return known.info if known is not None and known.info.can_chat else None

    async def describe(self, name: str) -> ModelInfo:
        """Return what is known of a model, without asking if that was done lately.

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
            can = ", ".join(info.capabilities) or "nothing that is known"
            raise ModelNotFound(
                f"Model '{name}' can't chat (what it can: {can}).", model=name, status=404
            )
        return info

    def forget(self, name: str) -> None:
        """Drop what is known under a name: the server has just said that it is not there."""
        self._known.discard(name)

    async def aclose(self) -> None:
        """Stop asking."""
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
        """Ask the server, or the cache when it knows this digest."""
        digest = tag.digest if tag is not None else None
        shown = self._shown.get(digest) if digest else None
        if shown is None:
            shown = await self._once(f"show {name}", lambda: self._ask_shown(name))
            if digest:
                self._shown[digest] = shown
        info = model_info(tag.name if tag is not None else name, tag, shown)
        self._known.set(name, _Known(info, digest))
        return info

    async def _ask_shown(self, name: str) -> Shown:
        async with self._shows:
            return await self._source.fetch_shown(name)

    async def _tags(self) -> Sequence[Tag]:
        tags = await self._once("tags", self._source.fetch_tags)
        digests = {tag.digest for tag in tags}
        for gone in self._shown.keys() - digests:
            del self._shown[gone]
        return tags

    async def _once(self, key: str, ask: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Ask, or wait for the answer to the same question that is being asked already.

        The question goes on when the one who asked first is cancelled: others wait for it.
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
            task.exception()  # seen: whoever asked may be gone by now


def _find(tags: Sequence[Tag], name: str) -> Tag | None:
    """Find a name in the list; one without a tag means ``:latest``, as it does for Ollama."""
    wanted = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
    return next((tag for tag in tags if tag.name == wanted), None)


def model_info(name: str, tag: Tag | None, shown: Shown) -> ModelInfo:
    """Put together what the list and the model's own page say."""
    return ModelInfo(
        name=name,
        size_mb=round((tag.size if tag is not None else 0) / 1e6, 1),
        format=shown.format,
        family=shown.family,
        parameter_size=shown.parameter_size,
        quantization_level=shown.quantization_level,
        capabilities=tuple(shown.capabilities),
        context_length=shown.context_length,
    )
