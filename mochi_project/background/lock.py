"""Locks the background worker for its one supervising process, and records the worker's state.

The file is ``.mochi/worker.lock``. It has the state written by its holder, which is meaningless
unless a living process holds it.
"""

from pathlib import Path
from typing import Literal

import msgspec

from sessions_app.decoding import decode_as
from sessions_app.store.atomic import read_regular
from sessions_app.store.holder import Holder, is_held

WORKER_LOCK_FILE = "worker.lock"
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
        self._holder: Holder | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free.

        Raises:
            OSError: The lock's file can't be opened or made.
        """
        self._holder = Holder.take(self._path)
        return self._holder is not None

    @property
    def is_held(self) -> bool:
        """Return whether this object has the lock, and its file still exists."""
        return self._holder is not None and self._holder.is_in_place

    def note(self, state: WorkerState) -> None:
        """Write the worker's state; only for the holder of the lock.

        Raises:
            OSError: The file can't be written (a full disk).
        """
        if self._holder is None:
            raise RuntimeError("only the holder of the lock knows the worker")
        self._holder.write(msgspec.json.encode(state))

    def release(self) -> None:
        """Release the lock. Idempotent."""
        holder, self._holder = self._holder, None
        if holder is not None:
            holder.release()


def worker_state(path: Path) -> WorkerState | None:
    """Return the worker's state; None while no process supervises it.

    Tries a shared lock for a moment, which does not affect a supervisor; a process that wants to
    become the supervisor at that moment retries.

    Raises:
        OSError: The lock's file exists and can't be read.
    """
    if not is_held(path):
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
