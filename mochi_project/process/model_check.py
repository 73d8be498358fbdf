"""Warns after the start if no model can be reached."""

import logging
import os

from models_app.catalogue import ModelCatalogue

WEB_PROCESS_VARIABLE = "_MOCHI_WEB_PROCESS"
"""Numbers the web processes of a pool in the order in which they start."""

logger = logging.getLogger(__name__)


def is_first_web_process() -> bool:
    """Return whether this process logs for the server: in a pool, the first one does."""
    return os.environ.get(WEB_PROCESS_VARIABLE, "0") == "0"


async def warn_without_models(models: ModelCatalogue) -> None:
    """Log a warning if Ollama does not answer and no other provider is configured.

    Other providers are not queried, so that a start makes no requests to the internet.
    """
    if len(models.providers) > 1 or await models.ping():
        return
    logger.warning(
        "no model can be reached: Ollama does not answer at %s, and no other provider has a key "
        "(start it with `ollama serve`; `mochi-server doctor` says more)",
        models.public_host,
    )
