"""Runs the coroutines of tasks on one event loop, which stays open between them.

A loop for each task, with its threads and its connections, took as long as the rest of a summary.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class TaskLoop:
    """Runs one coroutine after another, in the thread that makes it."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine to its end and return its result, or raise its error.

        An error may have come out of the loop itself (a task that took too long is interrupted
        anywhere), with things half done: then whatever runs is cancelled, and the next task gets
        another loop.
        """
        if self._runner is None:
            self._runner = asyncio.Runner()
        try:
            return self._runner.run(coroutine)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cancel what still runs and close the loop; the next coroutine gets another."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()
