"""Declares the port of the task queue of the background workers."""

from typing import Protocol


class TaskQueue(Protocol):
    """Queues function calls. Tasks may get lost, so callers must be able to queue them again.

    Attributes:
        is_shared: Whether several workers run the calls, which then have to ``hold`` them.
    """

    is_shared: bool

    def add(self, function: str, *arguments: str, delay_seconds: float) -> bool:
        """Queue calls of a function with these arguments, all or none. Blocks.

        Args:
            function: The dotted name; the worker imports it. It takes one argument.
            arguments: Each is passed in a call of its own. Identifiers only, never users' text: a
                queue may be readable by others.
            delay_seconds: The minimum delay before the worker runs the calls.

        Returns:
            False if they can't be queued at the moment.
        """

    def hold(self, function: str, argument: str) -> bool:
        """Lease a call to this process while it runs; False if another one has it. Blocks.

        A lease that is neither renewed nor released expires after some seconds, and the call is
        queued again, since its worker died. A queue of one worker grants every lease.
        """

    def renew(self, function: str, argument: str) -> None:
        """Renew the lease of a call for some more seconds. Blocks."""

    def release(self, function: str, argument: str) -> None:
        """End the lease; the call is not queued again. Blocks."""
