"""Limits the rate of messages from a server, and so the processor time that it can take."""

import asyncio

_SPAN_SECONDS = 0.1
_PER_SPAN = 200


class RateLimiter:
    """Lets 2,000 messages (or pieces of bytes) a second through, and delays the rest."""

    def __init__(self) -> None:
        self._began = 0.0
        self._count = 0

    async def wait(self) -> None:
        """Count one message, and wait if there were too many in this span."""
        self._count += 1
        if self._count % _PER_SPAN:
            return
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._began + _SPAN_SECONDS - loop.time()))
        self._began = loop.time()
