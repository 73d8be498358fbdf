"""Measures how late the event loop runs, and logs long delays."""

import asyncio
import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 0.25
TOLD_SECONDS = 1.0
"""The delay from which on it is told: a busy machine alone makes it tenths of a second."""


async def watch_loop(sample: Callable[[float], None]) -> None:
    """Log when something holds the event loop up, for as long as this task runs.

    Args:
        sample: Called with the seconds that the loop was late, four times a second.
    """
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + INTERVAL_SECONDS
        await asyncio.sleep(INTERVAL_SECONDS)
        late = max(loop.time() - due, 0.0)
        if late >= TOLD_SECONDS:
            logger.warning(
                "the event loop was held up: all streams of this process waited",
                extra={"seconds": round(late, 3)},
            )
        sample(late)
