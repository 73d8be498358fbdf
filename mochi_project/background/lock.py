"""Locks the background worker for its one supervising process, and records the worker's state.

Uses ``flock`` on ``.mochi/worker.lock``, which the system drops with its holder. The file has the
state written by the holder; it is meaningless unless locked.
"""

import fcntl
import os
from pathlib import Path
from typing import Literal

import msgspec

from sessions_app.decoding import decode_as
from sessions_app.store.atomic import PRIVATE_FILE, make_private_directory, read_regular
from sessions_app.store.locks import try_lock

WORKER_LOCK_FILE = "worker.lock"
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
MAX_STATE_BYTES = 4096

Phase = Literal["starting", "running", "broken"]


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """Describes the background worker as its supervisor sees it.

    Attributes:
        phase: The phase; ``broken`` is between its death and its next start.
        keeper: The id of the supervising process.
        restarts: The number of restarts.
    """

    phase: Phase = "starting"
    keeper: int = 0
    restarts: int = 0


class WorkerLock:
    """Holds the lock of one data directory. Calls block for microseconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free.

        Raises:
            OSError: The lock's file can't be opened or made.
        """
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        if not os.fstat(descriptor).st_nlink:  # removed meanwhile: other processes lock a new one
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    @property
    def is_held(self) -> bool:
        """Return whether this object has the lock, and its file still exists."""
        return self._descriptor is not None and bool(os.fstat(self._descriptor).st_nlink)

    def note(self, state: WorkerState) -> None:
        """Write the worker's state; only for the holder of the lock.

        Raises:
            OSError: The file can't be written (a full disk).
        """
        if self._descriptor is None:
            raise RuntimeError("only the holder of the lock knows the worker")
        data = msgspec.json.encode(state)
        os.pwrite(self._descriptor, data, 0)
        os.ftruncate(self._descriptor, len(data))

    def release(self) -> None:
        """Release the lock. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _open(self) -> int:
        try:
            return os.open(self._path, _OPEN | os.O_CREAT, PRIVATE_FILE)
        except FileNotFoundError:
            make_private_directory(self._path.parent)
            return os.open(self._path, _OPEN | os.O_CREAT, PRIVATE_FILE)


def worker_state(path: Path) -> WorkerState | None:
    """Return the worker's state; None while no process supervises it.

    Tries a shared lock for a moment, which does not affect a supervisor; a process that wants to
    become the supervisor at that moment retries.

    Raises:
        OSError: The lock's file exists and can't be read.
    """
    with try_lock(path) as is_free:
        if is_free is not False:
            return None
    try:
        return _decode(read_regular(path, limit=MAX_STATE_BYTES))
    except FileNotFoundError:  # removed by the supervisor meanwhile
        return None


def _decode(data: bytes) -> WorkerState:
    try:
        return decode_as(data, WorkerState)
    except msgspec.MsgspecError:  # the supervisor has just taken the lock, or the disk is full
        return WorkerState()
