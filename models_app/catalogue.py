"""Which language model a model name means."""

import asyncio
import logging

from models_app.errors import ModelError, ModelNotFound
from models_app.language_model import LanguageModel, ModelInfo
from models_app.providers.ollama import OllamaModel

LOOK_UP_SECONDS = 5.0

_OLLAMA = "ollama"
# Names that choose another provider when they stand in front of a colon; none of them is here yet.
_OTHER_PROVIDERS = frozenset({"openai", "anthropic", "google", "openrouter", "profile"})


logger = logging.getLogger(__name__)


class ModelCatalogue:
    """Every model that this server can talk to, by name.

    A plain name (``qwen3:14b``, ``hf.co/user/model:Q4_K_M``) means Ollama, and so does
    ``ollama:<name>``.
    """

    def __init__(self, ollama: OllamaModel) -> None:
        self._ollama = ollama

    @property
    def public_host(self) -> str:
        """Ollama's URL without credentials, for people to see."""
        return self._ollama.public_host

    async def list(self) -> list[ModelInfo]:
        """Return the models that can chat.

        Raises:
            ModelError: The provider can't be asked.
        """
        return await self._ollama.list_models()

    async def get(self, name: str) -> ModelInfo:
        """Return what is known of a model.

        Raises:
            ModelNotFound: No provider has it, or it can't chat.
            ModelError: The provider can't be asked.
        """
        model, bare_name = self.resolve(name)
        return await model.describe(bare_name)

    async def look_up(self, name: str, *, must_exist: bool = True) -> ModelInfo | None:
        """Return what is known of a model; None while its provider can't be asked.

        A provider that is out of reach must not keep anybody from working on sessions.

        Args:
            name: The model's name.
            must_exist: Whether a model that is not there is an error; else it is None too.

        Raises:
            ModelNotFound: No provider has it, or it can't chat.
        """
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                return await self.get(name)
        except ModelNotFound:
            if must_exist:
                raise
        except TimeoutError:
            logger.warning("the provider of model %r is silent", name)
        except ModelError as error:
            logger.warning("model %r is not known just now: %s", name, error.message)
        return None

    def recall(self, name: str) -> ModelInfo | None:
        """Return what was told of a model lately, without asking; None if nothing was."""
        model, bare_name = self.resolve(name)
        return model.recall(bare_name)

    def resolve(self, name: str) -> tuple[LanguageModel, str]:
        """Return who runs a model, and its name there.

        Raises:
            ModelNotFound: The name is empty, or its provider is not configured.
        """
        prefix, colon, rest = name.partition(":")
        if colon and prefix in _OTHER_PROVIDERS:
            raise ModelNotFound(
                f"Model '{name}' is not available: the provider '{prefix}' is not configured.",
                provider=prefix,
                model=name,
            )
        bare_name = rest if colon and prefix == _OLLAMA else name
        if not bare_name.strip():
            raise ModelNotFound("A model's name can't be empty.", model=name)
        return self._ollama, bare_name

    async def ping(self) -> bool:
        """Tell whether Ollama answers, within a second. Never raises a connection error."""
        return await self._ollama.ping()

    async def warm_up(self) -> None:
        """Import and open what the first request needs. Called once the server listens."""
        await self._ollama.warm_up()

    async def aclose(self) -> None:
        """Close every connection."""
        await self._ollama.aclose()
