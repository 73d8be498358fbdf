"""Defines the deadline of a process that stops (docs/decisions/0121)."""

import math
import time

END_SECONDS = 2.0
"""The time after the deadline for turns that it ends: they save their text and say goodbye."""
CLOSE_SECONDS = 5.0
"""The time after the deadline until tool processes, threads and connections have ended."""
KILL_SECONDS = 10.0
"""The time after the deadline until a parent process kills what still runs."""


class Deadline:
    """The time at which a process that stops ends its work; it is not set until then.

    All parts of a process share one instance. Any thread may read it.
    """

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at = math.inf

    def set(self, seconds: float) -> None:
        """Set it to this many seconds from now, unless it is already earlier."""
        self._at = min(self._at, time.monotonic() + seconds)

    @property
    def is_set(self) -> bool:
        """Return whether the process stops."""
        return self._at < math.inf

    def within(self, limit: float, after: float = 0.0) -> float:
        """Return the seconds left, at most ``limit``.

        Args:
            limit: The limit of the work itself, whether the process stops or not.
            after: The time that this work has after the deadline.
        """
        return max(0.0, min(limit, self._at + after - time.monotonic()))


NEVER = Deadline()
"""The deadline of parts that no process ends, as in tests: it is never set."""
