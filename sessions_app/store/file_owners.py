"""Detects which processes of this machine are alive, by locks that end with them.

Every owner of claims holds a ``flock`` on its own liveness file; the system drops the lock with the
process. So a dead owner is detected immediately, without timeouts, and a living one is never
declared dead, unless its liveness file was removed or hidden by another directory.
"""

import fcntl
import os
import re
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress

from sessions_app.store.atomic import (
    PRIVATE_FILE,
    StrPath,
    make_private_directory,
    raise_if_unwritable,
)
from sessions_app.store.locks import try_lock

_LIVENESS_FILE = re.compile(r"[0-9a-f]{16}\.lock", re.ASCII)
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class FileOwners:
    """Detects living processes by liveness files; implements ``Owners``.

    A process has one id for each directory, shared by all instances.

    Args:
        directory: The directory of the liveness files; created by ``mine``.
    """

    def __init__(self, directory: StrPath) -> None:
        self._directory = os.fspath(directory)

    def mine(self) -> str:
        """Return the id of this process, which counts as alive until the process ends.

        A new id is made if the liveness file was lost.

        Raises:
            StorageFull, StorageReadOnly: The liveness file can't be created.
        """
        try:
            return _held(self._directory).owner()
        except OSError as error:
            raise_if_unwritable(error)
            raise

    def lives(self, owner: str) -> bool:
        """Return whether the process with this id is alive."""
        if not owner:
            return False
        held = _this_process.get(self._directory)
        if held is not None and owner == held.known_owner:
            return True
        with try_lock(f"{self._directory}/{owner}.lock") as is_free:
            return is_free is False

    def holds(self) -> bool:
        """Return True: a process that holds its lock is never declared dead."""
        return True

    def when_condemned(self, call: Callable[[str], None]) -> None:
        """Register a callback for an id of this process whose liveness file was lost."""
        _held(self._directory).condemned_calls.append(call)

    def sweep(self) -> int:
        """Remove the liveness files of dead processes; return how many."""
        swept = 0
        with suppress(FileNotFoundError):
            for name in filter(_LIVENESS_FILE.fullmatch, os.listdir(self._directory)):
                path = f"{self._directory}/{name}"
                with try_lock(path) as is_free:
                    if is_free:
                        with suppress(FileNotFoundError):
                            os.unlink(path)
                        swept += 1
        return swept


class _HeldLiveness:
    """The id of this process in one directory, and its liveness lock."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self.known_owner: str | None = None
        self.condemned_calls: list[Callable[[str], None]] = []

    def owner(self) -> str:
        """Return the id after locking its file; make a new id if the file was lost."""
        with self._lock:
            lost = self.known_owner if not self.is_in_place() else None
            if lost is not None or self.known_owner is None:
                self.known_owner, self._descriptor = self._take()
            owner = self.known_owner
        if lost is not None:
            for call in self.condemned_calls:
                call(lost)
        return owner

    def is_in_place(self) -> bool:
        """Return whether the locked file is still the one at its path; True if none is locked."""
        if self._descriptor is None:
            return True
        try:
            found = os.stat(f"{self._directory}/{self.known_owner}.lock")
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._descriptor))

    def _take(self) -> tuple[str, int]:
        make_private_directory(self._directory, durable=False)
        while True:
            owner = secrets.token_hex(8)
            descriptor = os.open(f"{self._directory}/{owner}.lock", _NEW, PRIVATE_FILE)
            # Waits for a sweeper that may have locked the new file, as it looks like a dead one's.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                return owner, descriptor
            os.close(descriptor)

    def forget(self) -> None:
        """Close the inherited lock, in a forked child."""
        if self._descriptor is not None:
            os.close(self._descriptor)


_this_process: dict[str, _HeldLiveness] = {}


def _held(directory: str) -> _HeldLiveness:
    held = _this_process.get(directory)
    return held or _this_process.setdefault(directory, _HeldLiveness(directory))


def _forget_locks() -> None:
    """Close inherited locks in a forked child, which would keep its parent's claims alive."""
    for held in _this_process.values():
        held.forget()
    _this_process.clear()


os.register_at_fork(after_in_child=_forget_locks)
