"""Counts the running turns of each client in this process (docs/decisions/0024)."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from chat.errors import TooManyTurnsOfClient


class ClientTurns:
    """Counts the turns of clients, and refuses those beyond a limit.

    Args:
        limit: How many one client may have running; 0 for any number.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: Counter[str] = Counter()

    def enter(self, client: str | None) -> Callable[[], None]:
        """Count a turn of a client; return what is to be called once it has ended.

        Raises:
            TooManyTurnsOfClient: The client has as many turns running as it may.
        """
        if not self._limit or client is None:
            return _nothing
        if self._running[client] >= self._limit:
            raise TooManyTurnsOfClient(self._limit)
        self._running[client] += 1

        def leave() -> None:
            self._running[client] -= 1
            if not self._running[client]:
                del self._running[client]

        return leave


def call_at_end(leave: Callable[[], None], starting: asyncio.Task[Any]) -> None:
    """Call back when a turn has ended, or could not be started: a starting task's done callback."""
    if starting.cancelled() or starting.exception() is not None:
        leave()
    else:
        starting.result().task.add_done_callback(lambda _: leave())


def _nothing() -> None:
    """Do nothing: turns are not counted."""
