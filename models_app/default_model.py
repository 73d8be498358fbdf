"""Chooses the model of a new conversation that names none."""

from collections.abc import Sequence

from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelError, ModelNotFound
from models_app.language_model import ModelInfo


async def choose_model(models: ModelCatalogue, configured: str | None) -> tuple[str, str]:
    """Return a model, and why it was chosen.

    It is the one of ``MOCHI_DEFAULT_MODEL``, else the only or the first one that is installed, else
    the first one of another provider.

    Raises:
        ModelNotFound: There is no model.
        ModelError: Ollama is the only provider, and can't be asked.
    """
    if configured is not None:
        return configured, "MOCHI_DEFAULT_MODEL"
    found, where = await _installed(models), "installed"
    if not found:
        found, where = await models.list(), "available"
    if not found:
        raise ModelNotFound(
            "There is no model to talk to. `ollama pull qwen3:4b` installs one; -m names one of "
            "another provider."
        )
    why = f"the only one {where}" if len(found) == 1 else f"the first of {len(found)} {where}"
    return found[0].name, f"{why}; -m or MOCHI_DEFAULT_MODEL chooses another"


async def _installed(models: ModelCatalogue) -> Sequence[ModelInfo]:
    try:
        return await models.installed()
    except ModelError:  # told by the listing that follows, if Ollama is all there is
        return ()
