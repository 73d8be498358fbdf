"""Does periodic chores: seals dead turns, sweeps what is not needed any more."""

import asyncio
import logging
from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)


class Housekeeper:
    """Does chores, each in a thread; one that fails does not keep the others.

    Args:
        chores: Functions, by names for the log.
    """

    def __init__(self, chores: Mapping[str, Callable[[], object]]) -> None:
        self._chores = chores

    async def run(self, interval_seconds: float = 60) -> None:
        """Do every chore now and once in an interval, until cancelled."""
        while True:
            for name, chore in self._chores.items():
                try:
                    await asyncio.to_thread(chore)
                except Exception:
                    logger.exception("a chore failed; it is tried again", extra={"chore": name})
            await asyncio.sleep(interval_seconds)
