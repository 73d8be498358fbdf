"""Routes CTRL-C, SIGTERM, and SIGHUP of a closed terminal, to the work that they stop."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mochi_project.process.graceful_stop import STOP_SIGNALS


class Interrupt:
    """Stops what runs when CTRL-C is pressed: at first the task that made this.

    Attributes:
        wants_end: Whether the program was asked to end too (SIGTERM, SIGHUP).
    """

    def __init__(self) -> None:
        self.wants_end = False
        self._pressed = False
        task = asyncio.current_task()
        self._stop: Callable[[], object] | None = task.cancel if task is not None else None
        numbers = [*STOP_SIGNALS]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
            numbers.append(signal.SIGHUP)
        for number in numbers:
            asyncio.get_running_loop().add_signal_handler(number, self._receive, number)

    @contextmanager
    def stops(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call ``stop`` for a signal that comes meanwhile, or came since ``forget``.

        So none is lost between two pieces of work.
        """
        outer, self._stop = self._stop, stop
        try:
            if self._pressed:
                stop()
            yield
        finally:
            self._stop = outer

    def forget(self) -> None:
        """Begin something new, which no earlier signal meant."""
        self._pressed = False

    def _receive(self, number: int) -> None:
        self._pressed = True
        self.wants_end = self.wants_end or number != signal.SIGINT
        if self._stop is not None:
            self._stop()
