"""Locks the background worker for its one supervising process, and records the worker's state.

``flock`` on ``.mochi/worker.lock``: the system drops it with its holder, however that ends. The
file holds what the holder wrote last; without the lock it means nothing.
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
        phase: ``broken`` is between its death and its next start.
        keeper: The process that supervises it.
        restarts: How often it had to be started anew.
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
        if not os.fstat(descriptor).st_nlink:  # removed meanwhile: others lock a new one
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    @property
    def is_held(self) -> bool:
        """Return whether this object has the lock, and its file is there for others to see."""
        return self._descriptor is not None and bool(os.fstat(self._descriptor).st_nlink)

    def note(self, state: WorkerState) -> None:
        """Write down how the worker is; the holder alone may.

        Raises:
            OSError: It can't be written (a full disk).
        """
        if self._descriptor is None:
            raise RuntimeError("only the holder of the lock knows the worker")
        data = msgspec.json.encode(state)
        os.pwrite(self._descriptor, data, 0)
        os.ftruncate(self._descriptor, len(data))

    def release(self) -> None:
        """Let another process keep the worker; doing it twice is harmless."""
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
    """Return how the worker is; None while no process supervises it.

    Asks with a shared lock, for a moment: that takes nothing from the keeper, and who would become
    the keeper just then tries again.

    Raises:
        OSError: The lock's file is there and can't be read.
    """
    with try_lock(path) as is_free:
        if is_free is not False:
            return None
    try:
        return _decode(read_regular(path, limit=MAX_STATE_BYTES))
    except FileNotFoundError:  # the keeper's, just now
        return None


def _decode(data: bytes) -> WorkerState:
    try:
        return decode_as(data, WorkerState)
    except msgspec.MsgspecError:  # the keeper has just taken the lock, or its disk is full
        return WorkerState()
