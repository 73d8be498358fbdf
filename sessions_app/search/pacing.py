"""Throttles long work, so that other work of the process is not delayed."""

from collections.abc import Callable

WORK_SECONDS = 0.0005
"""So long the work goes on without a rest: streams wait no longer than that for the interpreter."""
RESTING_SHARE = 0.4
"""It rests for this share of the time that it worked, at least."""
MOST_A_SECOND = 8_000
"""So many steps are made in a second at most, on machines that could make more."""


class Pace:
    """Rests now and then between the steps of some work.

    Args:
        clock: What the time is.
        rest: Waits for so many seconds.
    """

    def __init__(self, clock: Callable[[], float], rest: Callable[[float], object]) -> None:
        self._clock = clock
        self._rest = rest
        self._begun = clock()
        self._steps = 0

    def __call__(self) -> None:
        """Make a step, and rest if it is time to."""
        self._steps += 1
        worked = self._clock() - self._begun
        if worked < WORK_SECONDS:
            return
        self._rest(max(worked * RESTING_SHARE, self._steps / MOST_A_SECOND - worked))
        self._begun = self._clock()
        self._steps = 0
