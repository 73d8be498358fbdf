"""Does periodic chores: seals dead turns, sweeps what is not needed any more."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

URGENT_SECONDS = 1.0


class Housekeeper:
    """Does chores, each in a thread; one that fails does not keep the others.

    Args:
        chores: Functions, by names for the log.
        urgent: Those that are done every second, and cost next to nothing when there is nothing
            to do.
    """

    def __init__(
        self,
        chores: Mapping[str, Callable[[], object]],
        urgent: Mapping[str, Callable[[], object]] | None = None,
    ) -> None:
        self._chores = dict(chores)
        self._urgent = urgent or {}
        self._failing: set[str] = set()

    def add(self, name: str, chore: Callable[[], object]) -> None:
        """Add a chore, before they are done."""
        self._chores[name] = chore

    async def run(
        self, interval_seconds: float = 60, *, urgent_seconds: float = URGENT_SECONDS
    ) -> None:
        """Do every chore now and once in an interval, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(self._chores, lambda: interval_seconds))
            if self._urgent:
                group.create_task(self._repeat(self._urgent, lambda: _about(urgent_seconds)))

    async def _repeat(
        self, chores: Mapping[str, Callable[[], object]], pause: Callable[[], float]
    ) -> None:
        while True:
            for name, chore in chores.items():
                await self._do(name, chore)
            await asyncio.sleep(pause())

    async def _do(self, name: str, chore: Callable[[], object]) -> None:
        try:
            await asyncio.to_thread(chore)
        except Exception:
            if name not in self._failing or name not in self._urgent:  # said once, not every second
                logger.exception("a chore failed; it is tried again", extra={"chore": name})
            self._failing.add(name)
        else:
            self._failing.discard(name)


def _about(seconds: float) -> float:
    """Return a pause of that length, but for a quarter: else all processes did a thing at once."""
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311 - no secret
