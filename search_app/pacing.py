"""Throttles long work, so that other work of the process is not delayed."""

from collections.abc import Callable

WORK_SECONDS = 0.0005
"""The longest work without a pause, and so the longest wait of streams for the GIL."""
RESTING_SHARE = 0.4
"""The minimum pause, as a share of the time worked."""
MOST_A_SECOND = 8_000
"""The maximum steps per second."""


class Pace:
    """Pauses between the steps of some work.

    Args:
        clock: A monotonic clock in seconds.
        rest: Sleeps for a number of seconds.
    """

    def __init__(self, clock: Callable[[], float], rest: Callable[[float], object]) -> None:
        self._clock = clock
        self._rest = rest
        self._begun = clock()
        self._steps = 0

    def __call__(self) -> None:
        """Count a step, and pause if it is due."""
        self._steps += 1
        worked = self._clock() - self._begun
        if worked < WORK_SECONDS:
            return
        self._rest(max(worked * RESTING_SHARE, self._steps / MOST_A_SECOND - worked))
        self._begun = self._clock()
        self._steps = 0
