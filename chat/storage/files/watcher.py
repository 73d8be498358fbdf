"""Watches files for changes by other processes, with one thread for all turns of a process.

Polling with ``stat`` 40 times a second works on every file system and costs 1 % of a core, most of
it for waking the thread. The thread sleeps while nothing is watched.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from chat.storage.callbacks import call_back

INTERVAL_SECONDS = 0.025
# File timestamps have a resolution of a few milliseconds, on some file systems of two seconds: two
# changes within it have the same timestamp.
TICK_NANOSECONDS = 50_000_000

Mark = tuple[int, int] | None


class PathWatcher:
    """Calls back, from its own thread, when a watched file or directory changed."""

    def __init__(self, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._interval = interval_seconds
        self._watched: dict[object, tuple[Path, Callable[[], object]]] = {}
        self._marks: dict[object, Mark] = {}
        self._something = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def watch(self, path: Path, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed`` now and after every change; return a stop function.

        ``changed`` runs in the watcher's thread and must return immediately, as
        ``loop.call_soon_threadsafe`` does.
        """
        key = object()
        with self._lock:
            self._watched[key] = (path, changed)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="path-watcher", daemon=True)
                self._thread.start()
        self._something.set()

        def stop() -> None:
            with self._lock:
                self._watched.pop(key, None)
                self._marks.pop(key, None)

        return stop

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._something.wait()
            self._look()
            pause.wait(self._interval)

    def _look(self) -> None:
        """Look at all files once; its end lets go of callbacks, which hold what they call."""
        with self._lock:
            watched = list(self._watched.items())
            if not watched:
                self._something.clear()
        for key, (path, changed) in watched:
            mark = _mark(path)
            if key in self._marks and mark == self._marks[key]:
                continue
            with self._lock:
                if key not in self._watched:
                    continue
                if _is_settled(mark):
                    self._marks[key] = mark
                else:
                    self._marks.pop(key, None)
            call_back(changed)


def _mark(path: Path) -> Mark:
    try:
        status = os.stat(path)  # noqa: PTH116 - forty times a second
    except OSError:  # missing or unreadable, which must not end the thread
        return None
    return status.st_mtime_ns, status.st_size


def _is_settled(mark: Mark) -> bool:
    """Return whether a further change would alter the mark, being more than a tick later."""
    return mark is None or abs(time.time_ns() - mark[0]) > TICK_NANOSECONDS
