"""Which session has a running turn, and whether the process that runs it still lives.

A claim is a symbolic link that leads nowhere: its target is the record
(``turn|worker|time|version``), so it is made and read with one system call each and is never
half-written. What a newer server wrote, in whatever form, counts as long as any worker lives that
it names. Every owner holds one
``flock`` on a liveness file of its own for as long as it lives; the system drops that lock with
the process, however it ends. So a dead owner is seen at once, without timeouts. Callers hold the
session's lock while they decide.
"""

import errno
import fcntl
import logging
import os
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress

from sessions_app.ids_and_clock import new_file_tag
from sessions_app.store.atomic import (
    PRIVATE_FILE,
    StrPath,
    make_private_directory,
    raise_if_unwritable,
    read_regular,
    sync_directory,
)
from sessions_app.store.locks import try_lock
from sessions_app.store.repository import Claim

logger = logging.getLogger(__name__)

SUFFIX = ".claim"
VERSION = 1
"""Of the record. Version 0 did not say so; the version changes when older servers can't read it."""
RECORD_LIMIT = 4096
_VERSIONS = frozenset({str(VERSION)})
_TURN_ID = re.compile(r"[0-9a-f]{20}", re.ASCII)
_LIVENESS_FILE = re.compile(r"[0-9a-f]{16}\.lock", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9-]{1,100}", re.ASCII)
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class TurnClaims:
    """The claims on the sessions of one directory."""

    def __init__(self, directory: StrPath) -> None:
        self._directory = os.fspath(directory)
        self._workers = f"{self._directory}/workers"

    def read(self, session_id: str) -> Claim | None:
        """Return the claim on the session, dead or alive, or None.

        A claim that makes no sense is nobody's, so its owner is dead.
        """
        text = self._text(session_id)
        if text is None:
            return None
        record = _known(text)
        if record is not None:
            turn_id, worker_id, started_at = record
            alive = self._lives(worker_id)
        else:
            words = _NAME.findall(text)
            turn_id = next(filter(_TURN_ID.fullmatch, words), "")
            worker_id = next(filter(self._lives, words), "")
            started_at, alive = "", bool(worker_id)
        return Claim(
            session_id=session_id,
            turn_id=turn_id,
            worker_id=worker_id,
            started_at=started_at,
            alive=alive,
            is_known=record is not None,
        )

    def turn_of(self, session_id: str) -> str | None:
        """Return the turn that has the claim on the session, dead or alive, or None."""
        text = self._text(session_id)
        if text is None:
            return None
        record = _known(text)
        return record[0] if record is not None else ""

    def write(self, session_id: str, *, turn_id: str, started_at: str) -> None:
        """Claim the session for a turn of this process, whatever claim was there."""
        record = f"{turn_id}|{this_worker(self._workers)}|{started_at}|{VERSION}"
        path = self._path(session_id)
        try:
            os.symlink(record, path)
        except FileExistsError:
            self.remove(session_id)
            os.symlink(record, path)
        except OSError as error:
            raise_if_unwritable(error)
            raise

    def remove(self, session_id: str) -> None:
        """Forget the claim, if there is one; a directory in its place is put aside as it is."""
        path = self._path(session_id)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in {errno.EISDIR, errno.EPERM} or not os.path.isdir(path):
                raise_if_unwritable(error)
                raise
            aside = f"{path}.{new_file_tag()}.broken"
            os.rename(path, aside)
            logger.warning("a directory lay in place of a claim; it is now %s", aside)

    def sync(self) -> None:
        """Put the claims on disk, so that a dead turn is known for one after a power cut too."""
        sync_directory(self._directory)

    def session_ids(self) -> Iterator[str]:
        """Yield the sessions that have a claim, dead or alive."""
        for name in _entries(self._directory):
            if name.endswith(SUFFIX):
                yield name.removesuffix(SUFFIX)

    def sweep_workers(self) -> int:
        """Remove the liveness files of dead processes; return how many."""
        swept = 0
        for name in filter(_LIVENESS_FILE.fullmatch, _entries(self._workers)):
            path = f"{self._workers}/{name}"
            with try_lock(path) as is_free:
                if is_free:
                    with suppress(FileNotFoundError):
                        os.unlink(path)
                    swept += 1
        return swept

    def _path(self, session_id: str) -> str:
        return f"{self._directory}/{session_id}{SUFFIX}"

    def _text(self, session_id: str) -> str | None:
        """Return the claim's record, empty where it makes no sense, or None."""
        path = self._path(session_id)
        try:
            return os.readlink(path)
        except FileNotFoundError:
            return None
        except OSError:  # somebody put something else there, or a newer server
            pass
        try:
            return read_regular(path, limit=RECORD_LIMIT).decode("ascii", "replace")
        except OSError:
            return ""

    def _lives(self, worker_id: str) -> bool:
        if not worker_id:
            return False
        if worker_id == _own_id(self._workers):
            return True
        with try_lock(f"{self._workers}/{worker_id}.lock") as is_free:
            return is_free is False


def _known(text: str) -> tuple[str, str, str] | None:
    """Return turn, worker and time, empty where they make no sense; None for a newer record."""
    fields = text.split("|", 4)
    if len(fields) > 4 or (len(fields) == 4 and fields[3] not in _VERSIONS):
        return None
    if len(fields) < 3:
        return None
    return _name(fields[0]), _name(fields[1]), fields[2]


def _name(text: str) -> str:
    """Return a name from a record, or nothing: it becomes a path, and must not lead elsewhere."""
    return text if _NAME.fullmatch(text) else ""


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


# --- This process -----------------------------------------------------------------------------

_mine: dict[str, tuple[str, int]] = {}
_mine_lock = threading.Lock()
_fork_watched = False


def this_worker(directory: StrPath) -> str:
    """Return this process's worker id for the directory of liveness files.

    The first call takes the process's liveness lock there and keeps it until the process ends; it
    is taken anew if its file is gone: somebody removed it, or mounted another directory there.
    """
    global _fork_watched  # noqa: PLW0603 - the hook must be registered once per process
    directory = os.fspath(directory)
    with _mine_lock:
        if directory not in _mine or not _is_in_place(directory, *_mine[directory]):
            if not _fork_watched:
                os.register_at_fork(after_in_child=_forget_locks)
                _fork_watched = True
            _mine[directory] = _take_liveness_lock(directory)
        return _mine[directory][0]


def _own_id(directory: str) -> str | None:
    """Return this process's worker id there, if it has one; who asks is alive."""
    mine = _mine.get(directory)
    return mine[0] if mine else None


def _is_in_place(directory: str, worker_id: str, descriptor: int) -> bool:
    """Whether others who look for the worker's lock find the file that we hold."""
    try:
        found = os.stat(f"{directory}/{worker_id}.lock")
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))


def _take_liveness_lock(directory: str) -> tuple[str, int]:
    make_private_directory(directory, durable=False)
    while True:
        worker_id = secrets.token_hex(8)
        path = f"{directory}/{worker_id}.lock"
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
