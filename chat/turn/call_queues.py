"""Queues tool calls that could undo each other's work (docs/decisions/0033)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext


class CallQueues:
    """The queues of one turn. The agents that it calls share them.

    Each queue lets one call run at a time, in the order in which calls came to it.
    """

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._is_closed = False

    @asynccontextmanager
    async def turn(self, queue: str | None) -> AsyncIterator[None]:
        """Wait for the calls that came before to end, and hold up those that come later.

        Args:
            queue: The queue's name; None does not wait.

        Raises:
            CancelledError: The queues were closed before it was this call's turn.
        """
        lock = nullcontext() if queue is None else self._locks.setdefault(queue, asyncio.Lock())
        async with lock:
            if self._is_closed:
                raise asyncio.CancelledError
            yield

    def close(self) -> None:
        """Let no more calls begin: the turn was stopped.

        Its cancellation may take a while to get here, since a write to a file is waited for.
        """
        self._is_closed = True
