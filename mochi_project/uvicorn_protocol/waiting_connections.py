"""Bounds the connections that wait for their client's next bytes (docs/decisions/0024)."""

import asyncio
import resource

MOST = 1024
# Of the open files that a process may have: turns need some too.
SHARE_OF_FILES = 4


class WaitingConnections:
    """Tracks the connections on which the server waits, and closes the longest waiting if many.

    A client that needs one connects again; one that holds thousands does not block others.

    Args:
        most: How many may wait; by default 1024, or less where few files may be open.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most or _default_bound()
        self._waiting: dict[asyncio.Transport, None] = {}  # in the order in which they began

    def add(self, transport: asyncio.Transport) -> None:
        """Note that a connection waits, from now on."""
        self._waiting.pop(transport, None)
        self._waiting[transport] = None
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.close()

    def discard(self, transport: asyncio.Transport) -> None:
        """Note that a connection waits no longer."""
        self._waiting.pop(transport, None)


def _default_bound() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST
    return max(1, min(MOST, files // SHARE_OF_FILES))
