"""Calls back from threads that follow something for many turns."""

import logging
from collections.abc import Callable
from contextlib import suppress

logger = logging.getLogger(__name__)


def call_back(received: Callable[[], object]) -> None:
    """Call a follower; log its error, which must not end the thread that the others share."""
    try:
        with suppress(RuntimeError):  # its event loop was closed just now
            received()
    except Exception:
        logger.exception("a follower of files or streams failed")
