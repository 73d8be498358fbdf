"""Chooses the model of a new conversation that names none."""

import logging
import time
from collections.abc import Callable, Sequence

from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelError, ModelNotFound
from models_app.expiring_cache import ExpiringCache
from models_app.language_model import ModelInfo
from models_app.names import patterns

CACHE_SECONDS = 10.0
"""The time for which the choice holds, if it is not configured."""

_NO_MODEL = (
    "There is no model to talk to. `ollama pull qwen3:4b` installs one; a request's `model`, "
    "-m of a command, or MOCHI_DEFAULT_MODEL names one of another provider."
)
logger = logging.getLogger(__name__)


class DefaultModel:
    """Chooses the model of new conversations that name none.

    It is the one of ``MOCHI_DEFAULT_MODEL``, else the only or the first one that is installed, else
    the first one of another provider. Providers are asked only without the setting, and at most
    every ten seconds.

    Args:
        models: The models to choose from.
        configured: The model of ``MOCHI_DEFAULT_MODEL``; None if it is not set.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        models: ModelCatalogue,
        configured: str | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models = models
        self.configured = configured
        self._first: ExpiringCache[tuple[str, str]] = ExpiringCache(CACHE_SECONDS, clock=clock)

    async def name(self) -> str:
        """Return the model.

        Raises:
            ModelNotFound: There is no model.
            ModelError: Ollama is the only provider, and can't be asked.
        """
        return self.configured or (await self.first())[0]

    async def name_if_known(self) -> str | None:
        """Return the model; None if there is none, or its provider can't be asked now."""
        try:
            return await self.name()
        except ModelError as error:
            logger.info("there is no default model: %s", error.message)
            return None

    async def choose(self) -> tuple[str, str]:
        """Return the model, and why it was chosen, as ``name`` does."""
        if self.configured is not None:
            return self.configured, "MOCHI_DEFAULT_MODEL"
        return await self.first()

    async def first(self) -> tuple[str, str]:
        """Return the first model that there is, and why, whatever is configured."""
        key = " ".join(patterns())
        known = self._first.get(key)
        if known is None:
            known = await self._find_first()
            self._first.set(key, known)
        return known

    async def _find_first(self) -> tuple[str, str]:
        found, where = await self._installed(), "installed"
        if not found:
            found, where = (await self._models.listing()).models, "available"
        if not found:
            raise ModelNotFound(_NO_MODEL, field="model")
        why = f"the only one {where}" if len(found) == 1 else f"the first of {len(found)} {where}"
        return found[0].name, f"{why}; -m or MOCHI_DEFAULT_MODEL chooses another"

    async def _installed(self) -> Sequence[ModelInfo]:
        try:
            return await self._models.installed()
        except ModelError:  # told by the listing that follows, if Ollama is all there is
            return ()
