"""Declares the port for the queue of tasks that the background worker runs."""

from typing import Protocol


class TaskQueue(Protocol):
    """Queues calls of functions. A task may get lost: its reason is kept elsewhere as well."""

    def add(self, function: str, *arguments: str, delay_seconds: float) -> bool:
        """Queue a call of a function for each argument, all or none, at the cost of one. Blocks.

        Args:
            function: Its dotted name; the worker imports it.
            arguments: Names only, never texts of people: a queue may be readable.
            delay_seconds: The worker leaves the calls alone for so long.

        Returns:
            False when they can't be queued just now.
        """
