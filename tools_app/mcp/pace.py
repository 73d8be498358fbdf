"""Bounds how much of the processor's time a server that floods us can take."""

import asyncio

_SPAN_SECONDS = 0.1
_PER_SPAN = 200


class Pace:
    """Lets 2,000 messages (or pieces of bytes) a second through, and those who send more wait."""

    def __init__(self) -> None:
        self._began = 0.0
        self._count = 0

    async def keep(self) -> None:
        """Count one, and wait if there were too many lately."""
        self._count += 1
        if self._count % _PER_SPAN:
            return
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._began + _SPAN_SECONDS - loop.time()))
        self._began = loop.time()
