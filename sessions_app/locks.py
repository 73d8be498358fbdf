"""Locks that hold across threads and processes, for milliseconds.

``flock`` on files that stay open: a lock costs two system calls. (A well-kept library, filelock
4.2, took 100 us of processor time for the same, four times a turn; that was a fifth of a turn.)
The system drops a lock with its process, so nobody has to clean up.
"""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sessions_app.atomic import PRIVATE_FILE, make_private_directory

POLL_SECONDS = 0.001
_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class FileLocks:
    """Named locks, one file each, in a directory that is made with the first of them.

    Threads of a process wait for each other here, processes in the file system.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process = os.getpid()
        self._threads: dict[str, threading.Lock] = {}
        self._descriptors: dict[str, int] = {}

    @contextmanager
    def held(self, name: str, *, timeout_seconds: float) -> Iterator[None]:
        """Hold the lock of this name.

        Raises:
            TimeoutError: Somebody else held it all the time.
            OSError: The lock's file can't be made.
        """
        if self._process != os.getpid():
            self._forget_parent()
        lock = self._threads.setdefault(name, threading.Lock())
        if not lock.acquire(timeout=timeout_seconds):
            raise TimeoutError
        try:
            descriptor = self._lock(name, time.monotonic() + timeout_seconds)
            try:
                yield
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            lock.release()

    def close(self) -> None:
        """Close the files; the locks can be used again."""
        for name in list(self._descriptors):
            os.close(self._descriptors.pop(name))

    def _forget_parent(self) -> None:
        """In a forked child: its parent's open files would be locked by both at once."""
        self._process = os.getpid()
        self._threads = {}
        self.close()

    def _lock(self, name: str, deadline: float) -> int:
        while True:
            descriptor = self._descriptors.get(name)
            if descriptor is None:
                descriptor = self._descriptors[name] = self._open(name)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TimeoutError from None
                time.sleep(POLL_SECONDS)
                continue
            if os.fstat(descriptor).st_nlink:
                return descriptor
            # Somebody removed the file: others lock a new one by that name.
            os.close(self._descriptors.pop(name))

    def _open(self, name: str) -> int:
        path = self._directory / f"{name}.lock"
        try:
            return os.open(path, _OPEN, PRIVATE_FILE)
        except FileNotFoundError:
            make_private_directory(self._directory)
            return os.open(path, _OPEN, PRIVATE_FILE)

    def __del__(self) -> None:
        self.close()
