"""Spreads clean-up over time when many clients disconnect at once.

The end of a stream costs the event loop half a millisecond: the request and its turn are cancelled,
the model's connection is closed and the session saved. A restarted proxy disconnects thousands of
clients, which would block the loop for more than a second at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable

AT_ONCE = 8
"""The disconnects handled in one iteration of the event loop: a few milliseconds."""


class Disconnects:
    """Handles disconnects: a few immediately, the others in the loop's next iterations."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._told = 0

    def tell(self, disconnect: Callable[[], None]) -> None:
        """Call ``disconnect``, now or soon, in the order of disconnects."""
        self._waiting.append(disconnect)
        if not self._told:
            self._handle_some()
        elif self._told < AT_ONCE and len(self._waiting) == 1:
            self._told += 1
            self._waiting.popleft()()

    def _handle_some(self) -> None:
        self._told = min(len(self._waiting), AT_ONCE)
        if not self._told:
            return
        # Scheduled first: an exception of one callback must not prevent the others.
        asyncio.get_running_loop().call_soon(self._handle_some)
        for _ in range(self._told):
            self._waiting.popleft()()
