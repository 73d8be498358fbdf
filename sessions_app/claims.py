"""Which session has a running turn, and whether the process that runs it still lives.

A claim is a small file that names its owner. Every owner holds one ``flock`` on a liveness file of
its own for as long as it lives; the system drops that lock with the process, however it ends. So a
dead owner is seen at once, without timeouts. Callers hold the session's lock while they decide.
"""

import errno
import fcntl
import os
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from sessions_app.atomic import (
    PRIVATE_FILE,
    UnreadableFileError,
    make_private_directory,
    read_regular,
    write_atomically,
)
from sessions_app.repository import Claim

CLAIM_SIZE_LIMIT = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9-]{1,100}", re.ASCII)
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class TurnClaims:
    """The claims on the sessions of one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._workers = directory / "workers"

    def read(self, session_id: str) -> Claim | None:
        """Return the claim on the session, dead or alive, or None.

        A claim that can't be read was torn by a crash of the machine, so its owner is dead.
        """
        raw = self._record(session_id)
        if raw is None:
            return None
        worker_id = _name(raw.get("worker_id"))
        return Claim(
            session_id=session_id,
            turn_id=_name(raw.get("turn_id")),
            worker_id=worker_id,
            started_at=str(raw.get("started_at", "")),
            alive=self._lives(worker_id),
        )

    def turn_of(self, session_id: str) -> str | None:
        """Return the turn that has the claim on the session, dead or alive, or None."""
        raw = self._record(session_id)
        return None if raw is None else _name(raw.get("turn_id"))

    def _record(self, session_id: str) -> dict[str, Any] | None:
        try:
            data = read_regular(self._path(session_id), limit=CLAIM_SIZE_LIMIT)
            return msgspec.json.decode(data, type=dict[str, Any])
        except FileNotFoundError:
            return None
        except (UnreadableFileError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}

    def write(self, session_id: str, *, turn_id: str, started_at: str) -> None:
        """Claim the session for a turn of this process, whatever claim was there."""
        record = {
            "turn_id": turn_id,
            "worker_id": this_worker(self._workers),
            "started_at": started_at,
        }
        # Claims end with their owner, so they need not survive a power cut.
        write_atomically(self._path(session_id), msgspec.json.encode(record), durable=False)

    def remove(self, session_id: str) -> None:
        """Forget the claim, if there is one."""
        self._path(session_id).unlink(missing_ok=True)

    def session_ids(self) -> Iterator[str]:
        """Yield the sessions that have a claim, dead or alive."""
        for path in _entries(self._directory):
            if path.suffix == ".json":
                yield path.stem

    def sweep_workers(self) -> int:
        """Remove the liveness files of dead processes; return how many."""
        swept = 0
        for path in _entries(self._workers):
            with _try_lock(path) as locked:
                if locked:
                    path.unlink(missing_ok=True)
                    swept += 1
        return swept

    def _path(self, session_id: str) -> Path:
        return self._directory / f"{session_id}.json"

    def _lives(self, worker_id: str) -> bool:
        if not worker_id:
            return False
        with _try_lock(self._workers / f"{worker_id}.lock") as locked:
            return locked is False


def _name(value: object) -> str:
    """Return a name from a file, or nothing: it becomes a path, and must not lead anywhere else."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


@contextmanager
def _try_lock(path: Path) -> Iterator[bool | None]:
    """Try to lock the file: True when it worked, False when its owner lives, None without file.

    A shared lock, so that nobody who tries meanwhile takes us for the owner. It is given back at
    the end of the block.
    """
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.EISDIR}:
            raise
        yield None
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _entries(directory: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        yield from directory.iterdir()


# --- This process -----------------------------------------------------------------------------

_mine: dict[Path, tuple[str, int]] = {}
_mine_lock = threading.Lock()
_fork_watched = False


def this_worker(directory: Path) -> str:
    """Return this process's worker id for the directory of liveness files.

    The first call takes the process's liveness lock there and keeps it until the process ends; it
    is taken anew if somebody removed its file.
    """
    global _fork_watched  # noqa: PLW0603 - the hook must be registered once per process
    with _mine_lock:
        if directory not in _mine or not os.fstat(_mine[directory][1]).st_nlink:
            if not _fork_watched:
                os.register_at_fork(after_in_child=_forget_locks)
                _fork_watched = True
            _mine[directory] = _take_liveness_lock(directory)
        return _mine[directory][0]


def _take_liveness_lock(directory: Path) -> tuple[str, int]:
    make_private_directory(directory)
    while True:
        worker_id = secrets.token_hex(8)
        path = directory / f"{worker_id}.lock"
        descriptor = os.open(path, _OPEN | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        # Waits for a sweeper that may have taken the new file for a dead process's.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return worker_id, descriptor
        os.close(descriptor)


def _forget_locks() -> None:
    """In a forked child: a copy of the lock must not keep its parent's claims alive."""
    global _mine_lock  # noqa: PLW0603 - another thread of the parent may have held it
    _mine_lock = threading.Lock()
    for _, descriptor in _mine.values():
        os.close(descriptor)
    _mine.clear()
