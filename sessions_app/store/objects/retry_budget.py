"""Defines how long a running turn retries a save while the store does not answer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sessions_app.errors import StorageUnavailable


class RetryBudget:
    """Counts the time for which the turns of a process retry: each may spend it once.

    A turn that could not save its answer saves what it has of it, before it leaves its claim to be
    sealed; a second wait would double the first.

    Args:
        seconds: How long a turn tries.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._spent: set[str] = set()

    @contextmanager
    def spent_by(self, turn_id: str | None) -> Iterator[float]:
        """Yield the seconds that a turn may try now; none for what is no turn.

        The second time that a turn gives up it leaves for good, and nothing is remembered of it.
        """
        if turn_id is None:
            yield 0.0
            return
        with self._lock:
            seconds = 0.0 if turn_id in self._spent else self._seconds
        try:
            yield seconds
        except StorageUnavailable:
            with self._lock:
                self._spent.symmetric_difference_update({turn_id})
            raise
        with self._lock:
            self._spent.discard(turn_id)
