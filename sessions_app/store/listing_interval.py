"""Limits how often background chores list objects, because stores charge for it."""

import time
from collections.abc import Callable

HOUR = 3600.0


class ListingInterval:
    """Tells when a listing is due: at first, and then once in each interval.

    Args:
        seconds: The interval.
        clock: A monotonic clock in seconds.
    """

    def __init__(self, seconds: float = HOUR, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._next: float | None = None

    def is_time(self) -> bool:
        """Return whether a listing is due, and if so start the next interval."""
        now = self._clock()
        if self._next is not None and now < self._next:
            return False
        self._next = now + self._seconds
        return True
