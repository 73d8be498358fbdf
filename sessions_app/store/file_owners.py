"""Detects which processes of this machine are alive, by locks that end with them.

Every owner of claims holds a ``flock`` on its own liveness file; the system drops the lock with the
process. So a dead owner is detected immediately, without timeouts, and a living one is never
declared dead, unless its liveness file was removed or hidden by another directory. A process that
gets an id removes the files of dead ones.
"""

import os
import re
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from sessions_app.store.atomic import StrPath, make_private_directory, raise_if_unwritable
from sessions_app.store.holder import Holder, held_if_free, is_held

_LIVENESS_FILE = re.compile(r"[0-9a-f]{16}\.lock", re.ASCII)


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
        return is_held(f"{self._directory}/{owner}.lock") is True

    def holds(self) -> bool:
        """Return True: a process that holds its lock is never declared dead."""
        return True

    def when_condemned(self, call: Callable[[str], None]) -> Callable[[], None]:
        """Register a callback for an id of this process whose liveness file was lost."""
        calls = _held(self._directory).condemned_calls
        calls.add(call)
        return partial(calls.discard, call)


class _HeldLiveness:
    """The id of this process in one directory, and its liveness lock."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._holder: Holder | None = None
        self.known_owner: str | None = None
        self.condemned_calls: set[Callable[[str], None]] = set()

    def owner(self) -> str:
        """Return the id after locking its file; make a new id if the file was lost."""
        with self._lock:
            is_lost = self._holder is not None and not self._holder.is_in_place
            lost = self.known_owner if is_lost else None
            if lost is not None or self.known_owner is None:
                make_private_directory(self._directory, durable=False)
                self._remove_dead()
                self.known_owner = secrets.token_hex(8)
                self._holder = Holder.create(f"{self._directory}/{self.known_owner}.lock")
            owner = self.known_owner
        if lost is not None:
            for call in tuple(self.condemned_calls):
                call(lost)
        return owner

    def _remove_dead(self) -> None:
        """Remove the liveness files of dead processes."""
        for name in filter(_LIVENESS_FILE.fullmatch, os.listdir(self._directory)):
            path = f"{self._directory}/{name}"
            with suppress(OSError), held_if_free(path, shared=True) as is_free:
                if is_free:
                    os.unlink(path)

    def forget(self) -> None:
        """Close the inherited lock, in a forked child."""
        if self._holder is not None:
            self._holder.release()


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
