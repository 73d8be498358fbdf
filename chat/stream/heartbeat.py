"""Times heartbeats, which are due after 15 s without an event."""

import asyncio
from collections.abc import Callable

HEARTBEAT_SECONDS = 15.0
"""Shorter than the read timeouts of proxies, which would take a silent connection for dead."""


class Heartbeat:
    """Calls ``beat`` whenever nothing was sent for ``HEARTBEAT_SECONDS``.

    Attributes:
        last_sent: The time of the last event, on the loop's clock; set by the listener, which costs
            less than moving a timer for every token.
    """

    __slots__ = ("_beat", "_loop", "_timer", "last_sent")

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._loop = asyncio.get_running_loop()
        self.last_sent = self._loop.time()
        self._timer = self._loop.call_later(HEARTBEAT_SECONDS, self._check)

    def stop(self) -> None:
        """Stop calling ``beat``. Idempotent."""
        self._timer.cancel()
        self._beat = _nothing  # the listener, which holds this

    def _check(self) -> None:
        due = self.last_sent + HEARTBEAT_SECONDS
        if self._loop.time() >= due:
            self._beat()
            due = self._loop.time() + HEARTBEAT_SECONDS
        self._timer = self._loop.call_at(due, self._check)


def _nothing() -> None:
    """Do nothing, after ``stop``."""
