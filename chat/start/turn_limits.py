"""Limits how many turns run in this process, and for one client (docs/decisions/0024)."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from chat.errors import TooManyTurns, TooManyTurnsOfClient


class TurnPlaces:
    """The places for turns in this process; several registries may share them.

    Args:
        active: How many turns may run at once.
        per_client: How many of them one client may have running; 0 for any number.
    """

    def __init__(self, active: int, per_client: int = 0) -> None:
        self._active = active
        self._per_client = per_client
        self._taken = 0
        self._taken_by: Counter[str] = Counter()

    def take(self, client: str | None) -> Callable[[], None]:
        """Take a place for a turn of a client; return what gives it back.

        Raises:
            TooManyTurns: As many turns run as may.
            TooManyTurnsOfClient: The client has as many turns running as it may.
        """
        if self._taken >= self._active:
            raise TooManyTurns(self._active)
        counted = client if self._per_client else None
        if counted is not None:
            if self._taken_by[counted] >= self._per_client:
                raise TooManyTurnsOfClient(self._per_client)
            self._taken_by[counted] += 1
        self._taken += 1
        return partial(self._give_back, counted)

    def _give_back(self, counted: str | None) -> None:
        self._taken -= 1
        if counted is not None:
            self._taken_by[counted] -= 1
            if not self._taken_by[counted]:
                del self._taken_by[counted]


def call_at_end(leave: Callable[[], None], starting: asyncio.Task[Any]) -> None:
    """Call back when a turn has ended, or could not be started: a starting task's done callback."""
    if starting.cancelled() or starting.exception() is not None:
        leave()
    else:
        starting.result().task.add_done_callback(lambda _: leave())
