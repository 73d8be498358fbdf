"""Queues tool calls that could undo each other's work (docs/decisions/0033)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext


class CallQueues:
    """The queues of one turn, shared with the agents that it calls.

    Each queue runs one call at a time, in order of arrival.
    """

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._is_closed = False

    @asynccontextmanager
    async def turn(self, queue: str | None) -> AsyncIterator[None]:
        """Wait for earlier calls to end, and make later ones wait.

        Args:
            queue: The queue's name; with None, do not wait.

        Raises:
            CancelledError: The queues were closed before it was this call's turn.
        """
        lock = nullcontext() if queue is None else self._locks.setdefault(queue, asyncio.Lock())
        async with lock:
            if self._is_closed:
                raise asyncio.CancelledError
            yield

    def close(self) -> None:
        """Let no more calls start: the turn was stopped.

        Its cancellation may arrive later, after a write to a file that it waits for.
        """
        self._is_closed = True
