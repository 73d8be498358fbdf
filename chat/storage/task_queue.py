"""Declares the port for the queue of tasks that the background workers run."""

from typing import Protocol


class TaskQueue(Protocol):
    """Queues calls of functions. A task may get lost: its reason is kept elsewhere as well.

    Attributes:
        is_shared: Whether several workers run its calls, which then are to be held.
    """

    is_shared: bool

    def add(self, function: str, *arguments: str, delay_seconds: float) -> bool:
        """Queue a function to be called with these arguments, all or none. Blocks.

        Args:
            function: Its dotted name; the worker imports it. It takes any number of arguments.
            arguments: Each comes with one call, alone or with others. Names only, never texts of
                people: a queue may be readable.
            delay_seconds: The worker leaves the calls alone for so long.

        Returns:
            False when they can't be queued just now.
        """

    def hold(self, function: str, argument: str) -> bool:
        """Keep a call to this process while it runs; False while another one has it. Blocks.

        A hold that is neither renewed nor released ends some seconds later, and the call is queued
        again: its worker died. One worker alone needs no holds, and gets them all.
        """

    def renew(self, function: str, argument: str) -> None:
        """Keep the call for some more seconds. Blocks."""

    def release(self, function: str, argument: str) -> None:
        """End the hold; the call is not queued again for it. Blocks."""
