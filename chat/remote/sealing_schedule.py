"""Schedules the attempts to seal the turns of dead processes."""

import time
from collections.abc import Callable, Collection

LONGEST_SECONDS = 30.0
"""The longest pause between two attempts to seal a session."""


class SealingSchedule:
    """Schedules the sealing of sessions: new ones at once, failed ones with growing pauses.

    Args:
        now: A clock.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._tried: dict[str, tuple[float, float]] = {}
        self._failures: dict[str, str] = {}

    def due(self, sessions: Collection[str]) -> list[str]:
        """Return the items to try now, sorted."""
        now = self._now()
        tried = {name: self._tried[name] for name in sessions if name in self._tried}
        due = sorted(name for name in sessions if tried.get(name, (0.0, now))[1] <= now)
        for name in due:
            pause = tried.get(name, (0.0, now))[0]
            tried[name] = (min(2 * pause, LONGEST_SECONDS) or 1.0, now + pause)
        self._tried = tried
        self._failures = {name: why for name, why in self._failures.items() if name in tried}
        return due

    def is_news(self, name: str, why: str) -> bool:
        """Return whether an item failed for the first time, or for another reason than before."""
        before = self._failures.get(name)
        self._failures[name] = why
        return why != before
