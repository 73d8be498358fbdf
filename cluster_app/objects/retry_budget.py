"""Limits how long a running turn retries a save while the store does not respond."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sessions_app.errors import StorageUnavailable


class RetryBudget:
    """Grants each turn of a process one period of retries.

    A turn that could not save its response tries to save it as partial, before it leaves its claim
    to be sealed. The second save gets no retries, which would double the wait.

    Args:
        seconds: The retry period of a turn.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._spent: set[str] = set()

    @contextmanager
    def spent_by(self, turn_id: str | None) -> Iterator[float]:
        """Yield the seconds that a turn may retry now; zero if None.

        After a second failure the turn is over, and its record is dropped.
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
