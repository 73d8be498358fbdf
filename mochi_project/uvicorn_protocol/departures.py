"""Spreads clean-up over time when many clients disconnect at once.

The end of a stream costs the event loop half a millisecond: the request and its turn are cancelled,
the model's connection is closed, the session saved. A proxy that is restarted takes thousands of
clients with it, and in one go that held up everybody else for more than a second.
"""

import asyncio
from collections import deque
from collections.abc import Callable

AT_ONCE = 8
"""Clients that are told of in one step of the event loop: a few milliseconds."""


class Departures:
    """Tells of clients that left: at once of a few, and of the others in the loop's next steps."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._told = 0

    def tell(self, disconnect: Callable[[], None]) -> None:
        """Call ``disconnect``, now or soon; those who left before come first."""
        self._waiting.append(disconnect)
        if not self._told:
            self._tell_some()
        elif self._told < AT_ONCE and len(self._waiting) == 1:
            self._told += 1
            self._waiting.popleft()()

    def _tell_some(self) -> None:
        self._told = min(len(self._waiting), AT_ONCE)
        if not self._told:
            return
        # First: an exception of one may not keep the others waiting for ever.
        asyncio.get_running_loop().call_soon(self._tell_some)
        for _ in range(self._told):
            self._waiting.popleft()()
