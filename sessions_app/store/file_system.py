"""Probes what the server needs of a file system (docs/decisions/0036).

A probe makes about twenty non-blocking system calls in a temporary directory. docs/file-systems.md
explains what each of them is needed for.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sessions_app.ids_and_clock import new_file_tag
from sessions_app.store.atomic import PRIVATE_DIRECTORY, PRIVATE_FILE, StrPath, sync_directory

COARSE_NS = 100_000_000
"""The timestamp resolution from which on a change may go unnoticed."""

_PREFIX = ".probe-"
_STALE_SECONDS = 60.0
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
# Temporary errors: the disk is full, or this process has too many open files.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class FileSystemReport:
    """The abilities that a directory's file system lacks.

    Attributes:
        missing: The required abilities that are missing, as phrases that continue "it ...".
        coarse_ns: The timestamp resolution if it is coarse; 0 if it is fine.
    """

    missing: tuple[str, ...] = ()
    coarse_ns: int = 0


def probe_file_system(directory: StrPath) -> FileSystemReport:
    """Probe an existing directory. On a full disk, skip the probe and report nothing missing.

    Raises:
        OSError: The directory can't be written to.
    """
    directory = os.fspath(directory)
    try:
        with _scratch(directory) as scratch:
            tried = [(what, _why_not(step, scratch)) for what, step in _STEPS.items()]
            missing = tuple(f"{what} ({why})" for what, why in tried if why)
            return FileSystemReport(missing, _resolution(scratch))
    except OSError as error:
        if error.errno in _PASSING:
            return FileSystemReport()
        raise


class _Refused(Exception):
    """Raised when a step did not have the required outcome."""


def _why_not(step: Callable[[str], None], scratch: str) -> str | None:
    try:
        step(scratch)
    except _Refused as refused:
        return str(refused)
    except OSError as error:
        if error.errno in _PASSING:
            raise
        return (error.strerror or type(error).__name__).lower()
    return None


@contextlib.contextmanager
def _scratch(directory: str) -> Iterator[str]:
    _sweep(directory)
    path = f"{directory}/{_PREFIX}{new_file_tag()}"
    os.mkdir(path, PRIVATE_DIRECTORY)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _sweep(directory: str) -> None:
    """Remove the directories of probes that were killed."""
    with os.scandir(directory) as entries:
        left = [entry for entry in entries if entry.name.startswith(_PREFIX)]
    for entry in left:
        with contextlib.suppress(OSError):  # another process was faster
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > _STALE_SECONDS:
                shutil.rmtree(entry.path, ignore_errors=True)


def _write(path: str, data: bytes = b"x") -> None:
    descriptor = os.open(path, _NEW, PRIVATE_FILE)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _hard_link(scratch: str) -> None:
    _write(f"{scratch}/file")
    os.link(f"{scratch}/file", f"{scratch}/link", follow_symlinks=False)
    try:
        os.link(f"{scratch}/file", f"{scratch}/link", follow_symlinks=False)
    except FileExistsError:
        return
    raise _Refused("they replace what is there")


def _symbolic_link(scratch: str) -> None:
    target = "turn|worker|time"
    os.symlink(target, f"{scratch}/claim")
    if os.readlink(f"{scratch}/claim") != target:
        raise _Refused("they are changed")


def _lock(scratch: str) -> None:
    path = f"{scratch}/lock"
    with contextlib.ExitStack() as stack:
        held = os.open(path, _NEW, PRIVATE_FILE)
        stack.callback(os.close, held)
        os.write(held, b"x")
        other = os.open(path, _READ)
        stack.callback(os.close, other)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            raise _Refused("a held lock is given to another one too")
        try:
            os.pread(other, 1, 0)
        except OSError as error:
            raise _Refused("a locked file can't be read by others") from error
        fcntl.flock(held, fcntl.LOCK_UN)
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _rename(scratch: str) -> None:
    old, new = f"{scratch}/old", f"{scratch}/new"
    _write(old, b"old")
    _write(new, b"new")
    reader = os.open(old, _READ)
    try:
        os.replace(new, old)
        if os.pread(reader, 4, 0) != b"old":
            raise _Refused("who reads the old file gets the new one")
    finally:
        os.close(reader)


def _sync(scratch: str) -> None:
    sync_directory(os.path.dirname(scratch))


_STEPS: dict[str, Callable[[str], None]] = {
    "hard links": _hard_link,
    "symbolic links": _symbolic_link,
    "locks (flock)": _lock,
    "renaming over an open file": _rename,
    "syncing a directory": _sync,
}


def _resolution(scratch: str) -> int:
    """Return the timestamp resolution in ns if it is coarse, else 0."""
    # An odd second, to detect a resolution of two seconds.
    wanted = 1_700_000_001_987_654_321
    os.utime(scratch, ns=(wanted, wanted))
    lost = abs(os.stat(scratch).st_mtime_ns - wanted)
    if lost < COARSE_NS:
        return 0
    return 1_000_000_000 if lost < 1_000_000_000 else 2_000_000_000
