"""Stops turns: why one shall end, and its task's cancellation, which a library may swallow."""

import asyncio

from chat.turn.state_machine import Input, TurnMachine

INSIST_SECONDS = 5.0


class StopRequest:
    """Holds why a turn shall end before its time.

    It knows the turn's place in the table and nothing else of it: what asks it, and is held by the
    turn itself, would else keep the turn in memory until a collection of garbage
    (docs/decisions/0095).

    Attributes:
        reason: What was asked for; None: nothing.
    """

    __slots__ = ("_machine", "reason")

    def __init__(self, machine: TurnMachine) -> None:
        self.reason: Input | None = None
        self._machine = machine

    @property
    def pending(self) -> Input | None:
        """Return the input that stops the turn, while it can: a cancellation may be swallowed.

        Any library on the way may do that: on Python 3.11 even ``asyncio.wait_for``.
        """
        return None if self.reason is None or self._machine.state.is_final else self.reason

    def is_pending(self) -> bool:
        """Return whether the turn is to be stopped."""
        return self.reason is not None and self.pending is not None


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
