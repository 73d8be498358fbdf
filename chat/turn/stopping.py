"""Cancels a task until it ends, also where a library swallows a cancellation."""

import asyncio

INSIST_SECONDS = 5.0


class Cancellation:
    """Cancels a task at once and every few seconds from then on, until it is done or ``end``.

    Even ``asyncio.wait_for`` swallows a cancellation on Python 3.11, when what it waits for is done
    just then.

    Args:
        task: What is cancelled.
    """

    def __init__(self, task: "asyncio.Task[object]") -> None:
        self._task = task
        self._timer: asyncio.TimerHandle | None = None
        self._insist()

    def end(self) -> None:
        """Do not cancel it again; doing it twice is harmless."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _insist(self) -> None:
        if not self._task.done():
            self._task.cancel()
            self._timer = self._task.get_loop().call_later(INSIST_SECONDS, self._insist)
