"""Declares the port of the task queue of the background workers."""

from dataclasses import dataclass
from typing import Protocol

from mochi_project.principal import DEFAULT_OWNER


class TaskQueue(Protocol):
    """Queues function calls. Tasks may get lost, so callers must be able to queue them again.

    Where several workers run the calls, they have to ``hold`` them.
    """

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


@dataclass(frozen=True)
class TasksOfOwner:
    """Queues calls for the sessions of one owner of data; implements ``TaskQueue``.

    An argument is ``owner/session``; of the owner ``default`` it is the session alone, as in queues
    of former versions.

    Attributes:
        queue: The queue of all owners.
        owner: The owner.
    """

    queue: TaskQueue
    owner: str

    def add(self, function: str, *arguments: str, delay_seconds: float) -> bool:
        """Queue calls of a function."""
        named = map(self._named, arguments)
        return self.queue.add(function, *named, delay_seconds=delay_seconds)

    def hold(self, function: str, argument: str) -> bool:
        """Lease a call to this process while it runs."""
        return self.queue.hold(function, self._named(argument))

    def renew(self, function: str, argument: str) -> None:
        """Renew the lease of a call."""
        self.queue.renew(function, self._named(argument))

    def release(self, function: str, argument: str) -> None:
        """End the lease of a call."""
        self.queue.release(function, self._named(argument))

    def _named(self, argument: str) -> str:
        return argument if self.owner == DEFAULT_OWNER else f"{self.owner}/{argument}"


def owner_and_session(argument: str) -> tuple[str, str]:
    """Return the owner and the session of a queued call."""
    owner, _, session_id = argument.rpartition("/")
    return owner or DEFAULT_OWNER, session_id
