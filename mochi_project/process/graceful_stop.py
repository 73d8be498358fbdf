"""Ends running turns before the web server handles a stop signal.

On a stop signal uvicorn closes its listeners and waits for open streams before it runs the
lifespan's shutdown; a stream waiting for a model would delay it. So the signal is handled here
first: new turns are refused, running ones get a grace time, and the rest are saved and their
streams ended; then the signal is passed on. A client that has not read the end of its stream a
second later is disconnected, and a request that still runs is cancelled, because uvicorn would wait
for them, by default forever.
"""

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

from sessions_app.deadline import Deadline

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
LAST_BYTES_SECONDS = 1.0

Handler = Callable[[int, FrameType | None], object]


class GracefulStop:
    """Handles stop signals before the previously installed handlers.

    Args:
        drain: Ends the turns, given their grace time in seconds; may be called again with 0 while
            it is running.
        deadline: The deadline of the process, which is set by the first signal.
        grace_seconds: The grace time of the first signal; a second signal allows none.
    """

    def __init__(
        self,
        drain: Callable[[float], Awaitable[None]],
        deadline: Deadline,
        grace_seconds: float,
    ) -> None:
        self._drain = drain
        self._deadline = deadline
        self._grace_seconds = grace_seconds
        self._previous: dict[int, Handler] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._handed_on = asyncio.Event()

    def install(self) -> None:
        """Replace the handlers of stop signals, if this thread may do so.

        Does nothing if there are no handlers, as in a test client.
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
        """Restore the previous handlers."""
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        self._previous.clear()

    def _start(self, number: int, frame: FrameType | None) -> None:
        task = asyncio.create_task(self._stop(number, frame))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stop(self, number: int, frame: FrameType | None) -> None:
        if not self._handed_on.is_set():
            self._deadline.set(0 if self._deadline.is_set else self._grace_seconds)
            try:
                await self._drain(self._deadline.within(self._grace_seconds))
            except Exception:
                logger.exception("running turns could not be ended")
            if self._handed_on.is_set():  # by another signal
                return
        await self._hand_on(number, frame)

    async def _hand_on(self, number: int, frame: FrameType | None) -> None:
        self._handed_on.set()
        handler = self._previous.get(number)
        if handler is not None:
            handler(number, frame)
            await asyncio.sleep(LAST_BYTES_SECONDS)
            drop_connections(getattr(handler, "__self__", None))


def drop_connections(server: Any) -> None:
    """Close every connection of a uvicorn server, discarding unsent data, and end its requests."""
    state = getattr(server, "server_state", None)  # None for another server
    for connection in list(state.connections) if state else ():
        connection.transport.abort()
    for request in list(state.tasks) if state else ():
        request.cancel()
