"""Limits the connections that wait for data from their client (docs/decisions/0024)."""

import asyncio
import resource

MOST = 1024
# The divisor of the process's limit of open files, since turns need files, too.
SHARE_OF_FILES = 4


class WaitingConnections:
    """Tracks waiting connections, and closes the one waiting longest if there are too many.

    A client that needs its connection reconnects; one that opens thousands can't block others.

    Args:
        most: The maximum number; by default 1024, or less with a low limit of open files.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most or _default_bound()
        self._waiting: dict[asyncio.Transport, None] = {}  # in the order in which they began

    def add(self, transport: asyncio.Transport) -> None:
        """Add a connection that starts waiting."""
        self._waiting.pop(transport, None)
        self._waiting[transport] = None
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.close()

    def discard(self, transport: asyncio.Transport) -> None:
        """Remove a connection that does not wait any more."""
        self._waiting.pop(transport, None)


def _default_bound() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST
    return max(1, min(MOST, files // SHARE_OF_FILES))
