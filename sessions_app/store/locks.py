"""Provides locks across threads and processes, held for milliseconds (docs/decisions/0008).

Uses ``flock`` on files that stay open, so a lock costs two system calls. The system drops locks
with their process, so there are no stale ones.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType

from sessions_app.store.atomic import PRIVATE_FILE, StrPath, make_private_directory
from sessions_app.store.holder import try_hold

POLL_SECONDS = 0.001
_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Waiting(threading.local):
    """Says what else a thread does for as long as it waits for a lock.

    Attributes:
        entered: Returns the context in which it waits; threads that others need are replaced then.
    """

    entered: Callable[[], AbstractContextManager[object]] = staticmethod(nullcontext)


WAITING = Waiting()


@contextmanager
def locked_directory(directory: StrPath, *, timeout_seconds: float) -> Iterator[bool]:
    """Lock a directory itself for the block; yield False if it was not free in time.

    Raises:
        OSError: The directory can't be opened.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + timeout_seconds
        while not (is_locked := try_hold(descriptor)) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        yield is_locked
    finally:
        os.close(descriptor)


class HeldLock:
    """A lock held until the end of its ``with`` block."""

    __slots__ = ("_descriptor", "_locks", "_thread_lock")

    def __init__(self, locks: "FileLocks", thread_lock: threading.Lock, descriptor: int) -> None:
        self._locks = locks  # keeps it alive: it closes the file when collected
        self._thread_lock = thread_lock
        self._descriptor = descriptor

    def __enter__(self) -> None:
        """Do nothing: the lock is held already."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the lock."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        finally:
            self._thread_lock.release()


class FileLocks:
    """Provides named locks, one file each, in a directory created with the first one.

    Threads of a process exclude each other by thread locks, processes by file locks.
    """

    def __init__(self, directory: StrPath) -> None:
        self._directory = os.fspath(directory)
        self._process = os.getpid()
        self._threads: dict[str, threading.Lock] = {}
        self._descriptors: dict[str, int] = {}

    def held(self, name: str, *, timeout_seconds: float) -> HeldLock:
        """Take the lock of this name, to be used directly in a ``with`` statement.

        Raises:
            TimeoutError: The lock was not free in time.
            OSError: The lock's file can't be created.
        """
        if self._process != os.getpid():
            self._forget_parent()
        lock = self._threads.setdefault(name, threading.Lock())
        try:
            return self._held(name, lock, 0)
        except TimeoutError:
            with WAITING.entered():
                return self._held(name, lock, timeout_seconds)

    def _held(self, name: str, lock: threading.Lock, timeout_seconds: float) -> HeldLock:
        if not lock.acquire(timeout=timeout_seconds):
            raise TimeoutError("the lock was not free in time")
        try:
            return HeldLock(self, lock, self._lock(name, timeout_seconds))
        except BaseException:
            lock.release()
            raise

    def is_made(self, name: str) -> bool:
        """Return whether this process has used the lock, so that its file exists."""
        return name in self._descriptors

    def close(self) -> None:
        """Close the files; the locks can be used again."""
        for name in list(self._descriptors):
            os.close(self._descriptors.pop(name))

    def _forget_parent(self) -> None:
        """Close inherited files in a forked child, since both processes would share their locks."""
        self._process = os.getpid()
        self._threads = {}
        self.close()

    def _lock(self, name: str, timeout_seconds: float) -> int:
        deadline = None
        while True:
            descriptor = self._descriptors.get(name)
            if descriptor is None:
                descriptor = self._descriptors[name] = self._open(name)
            if not try_hold(descriptor):
                now = time.monotonic()
                deadline = deadline or now + timeout_seconds
                if now >= deadline:
                    raise TimeoutError("the lock was not free in time")
                time.sleep(POLL_SECONDS)
                continue
            if os.fstat(descriptor).st_nlink:
                return descriptor
            # The file was removed: other processes lock a new one.
            os.close(self._descriptors.pop(name))

    def _open(self, name: str) -> int:
        path = f"{self._directory}/{name}.lock"
        try:
            return os.open(path, _OPEN, PRIVATE_FILE)
        except FileNotFoundError:
            make_private_directory(self._directory, durable=False)
            return os.open(path, _OPEN, PRIVATE_FILE)

    def __del__(self) -> None:
        self.close()
