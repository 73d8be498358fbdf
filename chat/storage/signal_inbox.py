"""Delivers signals from other processes to the turns of this process."""

import asyncio
import logging
import threading
from collections.abc import Callable

from chat.storage.signals import Signals
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)

REST_SECONDS = 10.0
RETRY_SECONDS = 1.0
"""The pause before reading signals is retried after an error."""


class SignalInbox:
    """Calls ``obey`` with each signal to a turn of this process.

    Call ``expect`` before other processes can see a turn, ``ready`` once it can handle signals and
    ``forget`` when it has ended. Signals that arrive before ``ready`` are buffered.
    """

    def __init__(self, signals: Signals, obey: Callable[[str, str], object]) -> None:
        self._signals = signals
        self._obey = obey
        self._expected: set[str] = set()
        self._obeying: set[str] = set()
        self._early: list[tuple[str, str]] = []
        self._stop_watching: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._used = False
        self._lock = threading.Lock()
        self._changed = False
        self._reading: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Watch for signals, including those already waiting; called on the loop.

        Call it when a turn is expected. Watching stops some time after the last expected turn, so
        that successive turns do not have to restart the watcher's thread.
        """
        if self._loop is asyncio.get_running_loop():
            return
        self.close()
        self._loop = loop = asyncio.get_running_loop()
        self._stop_watching = self._signals.watch(
            lambda: loop.is_closed() or loop.call_soon_threadsafe(self._look)
        )
        loop.call_later(REST_SECONDS, self._rest)

    def _rest(self) -> None:
        """Stop watching if no turn was expected for a while."""
        with self._lock:
            used, self._used = bool(self._expected) or self._used, False
        if used and self._loop is not None:
            self._loop.call_later(REST_SECONDS, self._rest)
        else:
            self.close()

    def close(self) -> None:
        """Stop watching; ``open`` starts it again."""
        if self._stop_watching is not None:
            self._stop_watching()
        self._stop_watching = self._loop = None

    def expect(self, turn_id: str) -> None:
        """Accept signals to the turn from now on. May be called from a thread."""
        with self._lock:
            self._expected.add(turn_id)
            self._used = True

    def ready(self, turn_id: str) -> None:
        """Deliver the turn's signals from now on, buffered ones first; called on the loop."""
        with self._lock:
            self._obeying.add(turn_id)
            if not self._early:
                return
            early = [signal for signal in self._early if signal[0] == turn_id]
            self._early = [signal for signal in self._early if signal[0] != turn_id]
        for signal in early:
            self._deliver(*signal)

    def forget(self, turn_id: str) -> None:
        """Accept no more signals to the turn. May be called from a thread."""
        with self._lock:
            self._expected.discard(turn_id)
            self._obeying.discard(turn_id)
            if self._early:
                self._early = [signal for signal in self._early if signal[0] != turn_id]

    @property
    def is_reading(self) -> bool:
        """Return whether signals are being read."""
        return self._reading is not None and not self._reading.done()

    def _look(self) -> None:
        self._changed = True
        if not self.is_reading:
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while self._changed:
            self._changed = False
            if self._expected:
                try:
                    signals = await asyncio.to_thread(self._signals.take, self._awaited())
                except StorageError as error:
                    logger.warning("signals can't be read now", extra={"reason": error.message})
                    await asyncio.sleep(RETRY_SECONDS)
                    self._changed = True
                    continue
                for signal in signals:
                    self._deliver(*signal)

    def _awaited(self) -> set[str]:
        with self._lock:
            return set(self._expected)

    def _deliver(self, turn_id: str, kind: str) -> None:
        with self._lock:
            obeys = turn_id in self._obeying
            if not obeys and turn_id in self._expected:
                self._early.append((turn_id, kind))
        if obeys:
            self._obey(turn_id, kind)
