"""Counts how many calls of a function run at once."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class RunningAtOnce(Generic[Result]):
    """Calls a function, after a moment in which others may call it too.

    Attributes:
        most: The most calls that ran at once.
    """

    def __init__(self, function: Callable[..., Result]) -> None:
        self.most = 0
        self._function = function
        self._running: list[None] = []
        self._others = threading.Event()

    def __call__(self, *args: object) -> Result:
        self._running.append(None)
        self.most = max(self.most, len(self._running))
        if len(self._running) > 1:
            self._others.set()
        self._others.wait(0.05)  # for who would not wait
        self._running.pop()
        return self._function(*args)
