"""Tells how the background worker is, as the one process that supervises it has written.

That process holds ``.mochi/worker.lock``. What is written there is meaningless unless a living
process holds it.
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


def write_state(holder: Holder, state: WorkerState) -> None:
    """Write the worker's state into the file that its supervisor holds.

    Raises:
        OSError: The file can't be written (a full disk).
    """
    holder.write(msgspec.json.encode(state))


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
