"""Limits how often chores list objects, because stores charge for it."""

import time
from collections.abc import Callable

HOUR = 3600.0


class ListingInterval:
    """Says when it is time to list objects for a chore, at first and once in a while.

    Args:
        seconds: How long a while is.
        clock: Counts seconds.
    """

    def __init__(self, seconds: float = HOUR, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._next: float | None = None

    def is_time(self) -> bool:
        """Return whether it is time, which it then is not for a while."""
        now = self._clock()
        if self._next is not None and now < self._next:
            return False
        self._next = now + self._seconds
        return True
