"""Measures how late the event loop runs, and logs long delays."""

import asyncio
import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 0.25
TOLD_SECONDS = 1.0
"""The minimum delay to log: mere load of the machine causes tenths of a second."""


async def watch_loop(sample: Callable[[float], None]) -> None:
    """Log when the event loop was blocked, until cancelled.

    Args:
        sample: Called with the loop's delay in seconds, four times a second.
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
