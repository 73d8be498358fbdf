"""Runs periodic chores of all owners of data: seals dead turns, sweeps obsolete data."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

from mochi_project.app import ServicePool
from mochi_project.background.rounds import OwnerFolders, Rounds
from mochi_project.principal import acting_for
from sessions_app.errors import MochiError

logger = logging.getLogger(__name__)

URGENT_SECONDS = 1.0
Chore = Callable[[], object]


class Chores(NamedTuple):
    """Holds the chores of an owner, each by its name for the log.

    Attributes:
        regular: To do in each interval.
        urgent: To do every second, which are almost free when there is nothing to do.
    """

    regular: Mapping[str, Chore]
    urgent: Mapping[str, Chore]


class Housekeeper:
    """Runs chores in threads; a failing chore does not affect the others.

    At the start, owners are loaded who have something unfinished, of whatever process died. Later,
    those who are not loaded are visited by turns (docs/decisions/0203).

    Args:
        pool: The services by owners, which have the ``Chores`` of each.
        chores: What is done for the whole process.
        owners: Finds the others.
    """

    def __init__(self, pool: ServicePool, chores: Chores, owners: OwnerFolders) -> None:
        self._pool = pool
        self._chores, self._urgent = chores
        self._owners = owners
        self._rounds = Rounds(partial(owners.to_visit, "chores"))
        self._failing: set[tuple[str, str]] = set()
        self._stopped = False

    async def run(
        self, interval_seconds: float = 60, *, urgent_seconds: float = URGENT_SECONDS
    ) -> None:
        """Run every chore now and once in each interval, until cancelled."""
        self._stopped = False
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._repeat_regular(interval_seconds))
                group.create_task(self._repeat_urgent(urgent_seconds))
        finally:
            self._stopped = True

    async def _repeat_regular(self, interval_seconds: float) -> None:
        visited = await asyncio.to_thread(self._found, self._owners.unfinished)
        while True:
            for owner in self._pool.loaded():
                await asyncio.to_thread(self._do_regular, owner)
            await asyncio.to_thread(self._do_all, "", self._chores)
            for owner in visited:
                await self._visit(owner)
            await asyncio.sleep(interval_seconds)
            visited = await asyncio.to_thread(self._found, self._rounds.next)

    async def _repeat_urgent(self, interval_seconds: float) -> None:
        while True:
            if self._urgent:
                await asyncio.to_thread(self._do_all, "", self._urgent, is_urgent=True)
            for owner, services in self._pool.loaded().items():
                chores = services.made(Chores)
                if chores is not None and chores.urgent:
                    await asyncio.to_thread(self._do_all, owner, chores.urgent, is_urgent=True)
            pause = random.uniform(0.75, 1.25)  # noqa: S311 - processes do not run in step
            await asyncio.sleep(interval_seconds * pause)

    async def _visit(self, owner: str) -> None:
        """Do the chores of an owner, who is loaded only for that if nothing of his runs."""
        if owner not in self._pool.loaded():
            await asyncio.to_thread(self._do_regular, owner)
            self._pool.release(owner)

    def _found(self, find: Callable[[], Sequence[str]]) -> Sequence[str]:
        """Return the owners to visit; none if they can't be found now."""
        owners: list[str] = []
        self._do("", "find owners", lambda: owners.extend(find()), is_urgent=False)
        return owners

    def _do_regular(self, owner: str) -> None:
        try:
            with acting_for(owner):
                chores = self._pool.of(owner).get(Chores).regular
        except Exception:  # those of other owners are done
            logger.exception("an owner's services can't be loaded", extra={"owner": owner})
        else:
            self._do_all(owner, chores)

    def _do_all(self, owner: str, chores: Mapping[str, Chore], *, is_urgent: bool = False) -> None:
        with acting_for(owner) if owner else nullcontext():
            for name, chore in chores.items():
                if not self._stopped:
                    self._do(owner, name, chore, is_urgent=is_urgent)

    def _do(self, owner: str, name: str, chore: Chore, *, is_urgent: bool) -> None:
        try:
            chore()
        except Exception as error:
            # An urgent chore is logged once, not every second.
            if not is_urgent or (owner, name) not in self._failing:
                logger.log(
                    logging.ERROR,
                    "a chore failed; it will be retried: %s",
                    error,
                    exc_info=not isinstance(error, MochiError | OSError),
                    extra={"chore": name, "owner": owner},
                )
            self._failing.add((owner, name))
        else:
            self._failing.discard((owner, name))
