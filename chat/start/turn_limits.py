"""Limits the number of running turns, of this process and of one client (docs/decisions/0024)."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from chat.errors import TooManyTurns
from mochi_project.principal import DEFAULT_OWNER, principal

MOST_RESUMED = 8
"""The turns of dead processes that go on at once until their first output."""


class TurnPlaces:
    """Counts the running turns of this process; several registries may share it.

    Args:
        active: The maximum number of running turns.
        per_client: The maximum number of running turns of a client; 0 for no limit.
        seconds: How long a turn may take.

    Attributes:
        seconds: As above.
        when_free: Called each time that a place is given back.
        suspects: Those of turns that died without output, until their first output.
        resumed: Those of other turns of dead processes, until their first output.
    """

    def __init__(self, active: int, per_client: int = 0, seconds: float = 1800.0) -> None:
        self.seconds = seconds
        self._active = active
        self._per_client = per_client
        self._taken = 0
        self._taken_by: Counter[str] = Counter()
        self.when_free = set[Callable[[], None]]()
        self.suspects = asyncio.Semaphore(1)
        self.resumed = asyncio.Semaphore(MOST_RESUMED)

    @property
    def is_full(self) -> bool:
        """Return whether the maximum number of turns runs."""
        return self._taken >= self._active

    def take(self, client: str | None) -> Callable[[], None]:
        """Take a place for a turn of a client; return the function that releases it.

        Raises:
            TooManyTurns: The maximum number of turns runs, of all clients or of this one.
        """
        if self.is_full:
            raise TooManyTurns(self._active)
        counted = client if self._per_client else None
        if counted is not None:
            if self._taken_by[counted] >= self._per_client:
                raise TooManyTurns(self._per_client, of_client=True)
            self._taken_by[counted] += 1
        self._taken += 1
        return partial(self._give_back, counted)

    def _give_back(self, counted: str | None) -> None:
        self._taken -= 1
        if counted is not None:
            self._taken_by[counted] -= 1
            if not self._taken_by[counted]:
                del self._taken_by[counted]
        self.call_waiting()

    def call_waiting(self) -> None:
        """Let what waits for a place try again."""
        for call in tuple(self.when_free):
            call()


def client_of_owner() -> str | None:
    """Return the client of a turn that no request begins: its owner; None for the default one.

    Turns of that owner count for the addresses of requests.
    """
    owner = principal().owner
    return None if owner == DEFAULT_OWNER else client_named(owner)


def client_named(owner: str) -> str:
    """Return an owner as the client of turns."""
    return f"key:{owner}"


def call_at_end(leave: Callable[[], None], starting: asyncio.Task[Any]) -> None:
    """Call ``leave`` when a turn has ended or failed to start; a starting task's done callback."""
    if starting.cancelled() or starting.exception() is not None:
        leave()
    else:
        starting.result().task.add_done_callback(lambda _: leave())
