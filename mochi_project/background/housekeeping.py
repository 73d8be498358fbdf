"""Runs periodic chores: seals dead turns, sweeps obsolete data."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping

from sessions_app.errors import MochiError

logger = logging.getLogger(__name__)

URGENT_SECONDS = 1.0


class Housekeeper:
    """Runs chores, each in a thread; a failing chore does not affect the others.

    Args:
        chores: Functions, by names for the log.
        urgent: Chores to run every second, which are almost free when there is nothing to do.
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
        """Add a chore; call before ``run``."""
        self._chores[name] = chore

    async def run(
        self, interval_seconds: float = 60, *, urgent_seconds: float = URGENT_SECONDS
    ) -> None:
        """Run every chore now and once in each interval, until cancelled."""
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
        except Exception as error:
            if (
                name not in self._failing or name not in self._urgent
            ):  # log an urgent chore once, not every second
                logger.log(
                    logging.ERROR,
                    "a chore failed; it will be retried: %s",
                    error,
                    exc_info=not isinstance(error, MochiError | OSError),
                    extra={"chore": name},
                )
            self._failing.add(name)
        else:
            self._failing.discard(name)


def _about(seconds: float) -> float:
    """Return a pause varied randomly by up to a quarter, so that processes do not run in step."""
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311 - no secret
