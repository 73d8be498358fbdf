"""Bounds the time of a call: without progress, and in all. It stands still while people answer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from tools_app.mcp.limits import McpLimits


class CallTime:
    """The time that is left for a call.

    Args:
        clock: Ends the call.
        limits: The times.
    """

    def __init__(self, clock: asyncio.Timeout, limits: McpLimits) -> None:
        self.is_over = False
        self._clock = clock
        self._seconds = limits.call
        self._stops = 0
        self._loop = asyncio.get_running_loop()
        self._latest = self._loop.time() + limits.call * limits.call_factor

    def renew(self) -> bool:
        """Begin anew with the time without progress; return False if the call is over."""
        if self.is_over or self._clock.expired():
            return False
        if not self._stops:
            self._clock.reschedule(min(self._latest, self._loop.time() + self._seconds))
        return True

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let the time stand still during the body."""
        begun = self._loop.time()
        self._stops += 1
        if not self.is_over and not self._clock.expired():
            self._clock.reschedule(None)
        try:
            yield
        finally:
            self._stops -= 1
            self._latest += self._loop.time() - begun
            self.renew()


@asynccontextmanager
async def call_time(limits: McpLimits) -> AsyncIterator[CallTime]:
    """Bound the time of the body; raises ``TimeoutError`` when it is over."""
    async with asyncio.timeout(limits.call) as clock:
        time = CallTime(clock, limits)
        try:
            yield time
        finally:
            time.is_over = True
