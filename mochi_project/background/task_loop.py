"""Runs the coroutines of tasks on one event loop, which stays open between them.

Opening a loop for each task, with its threads and connections, doubled the time of a summary.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class TaskLoop:
    """Runs one coroutine after another, in the thread that creates it."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine and return its result, or raise its error.

        An error may come from the loop itself, as a timeout interrupts a task anywhere. So after an
        error all running tasks are cancelled, and the next coroutine gets a new loop.
        """
        if self._runner is None:
            self._runner = asyncio.Runner()
        try:
            return self._runner.run(coroutine)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cancel running tasks and close the loop; the next coroutine gets a new one."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()
