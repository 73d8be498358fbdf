"""Ends running turns before the web server hears of the signal that stops it.

On a stop signal uvicorn closes its listeners and waits for open streams before it runs the
lifespan's shutdown; a stream that waits for a model would keep it. So the signal comes here first:
new turns are refused, running ones get their grace time, what is left is saved and its streams are
ended; then the signal is handed on. A client that has not read the end of its stream a second later
is dropped: uvicorn would wait for it, by default for ever.
"""

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
LAST_BYTES_SECONDS = 1.0

Handler = Callable[[int, FrameType | None], object]


class GracefulStop:
    """Handles stop signals before the handlers that were installed.

    Args:
        drain: Ends the turns, given their grace time in seconds; may be called again, with no
            grace, while it runs.
        grace_seconds: The grace time of the first signal; a second signal leaves none.
    """

    def __init__(self, drain: Callable[[float], Awaitable[None]], grace_seconds: float) -> None:
        self._drain = drain
        self._grace_seconds = grace_seconds
        self._previous: dict[int, Handler] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._received = 0
        self._handed_on = False

    def install(self) -> None:
        """Take the signals over, where they have handlers and this thread may.

        A server that handles no signals itself (a test client) is left alone.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()

        def receive(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._start, number, frame)

        for number in STOP_SIGNALS:
            previous = signal.getsignal(number)
            if callable(previous) and previous is not signal.default_int_handler:
                self._previous[number] = previous
                signal.signal(number, receive)

    def uninstall(self) -> None:
        """Give the signals back."""
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        self._previous.clear()

    def _start(self, number: int, frame: FrameType | None) -> None:
        task = asyncio.create_task(self._obey(number, frame))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _obey(self, number: int, frame: FrameType | None) -> None:
        self._received += 1
        if self._received == 1:
            await self._drain_safely(self._grace_seconds)
            await self._hand_on(number, frame)
        elif not self._handed_on:
            await self._drain_safely(0)  # and the first signal is handed on
        else:
            await self._hand_on(number, frame)

    async def _drain_safely(self, grace_seconds: float) -> None:
        try:
            await self._drain(grace_seconds)
        except Exception:
            logger.exception("running turns could not be ended")

    async def _hand_on(self, number: int, frame: FrameType | None) -> None:
        self._handed_on = True
        handler = self._previous.get(number)
        if handler is not None:
            handler(number, frame)
            await asyncio.sleep(LAST_BYTES_SECONDS)
            drop_connections(getattr(handler, "__self__", None))


def drop_connections(server: Any) -> None:
    """Drop every connection of a uvicorn server, with what was not read of it."""
    state = getattr(server, "server_state", None)  # another server sees to that itself
    for connection in list(state.connections) if state else ():
        connection.transport.abort()
