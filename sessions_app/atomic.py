"""Single files, read and written so that nothing is half-written, followed or waited for.

Shared by every room that keeps its data in files of its own. Linux and macOS.
"""

import errno
import os
import secrets
import stat
from pathlib import Path

from sessions_app.errors import StorageFull

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class UnreadableFileError(OSError):
    """The file is there but must not or can't be read; ``reason`` says why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path.name}: {reason}")
        self.reason = reason


def write_atomically(path: Path, data: bytes, *, exclusive: bool = False) -> None:
    """Put ``data`` at ``path``, whole and on disk, or leave what was there untouched.

    The file gets mode 0600. Missing directories are made with mode 0700. A symbolic link at
    ``path`` is replaced, never followed.

    Args:
        path: Where the file shall be.
        data: Its whole content.
        exclusive: Fail if something stands there already; of several writers exactly one succeeds.

    Raises:
        FileExistsError: ``exclusive``, and ``path`` exists (as anything, a dangling link too).
        StorageFull: No space is left.
    """
    temporary = path.with_name(f".{path.name[:64]}.{secrets.token_hex(8)}.tmp")
    try:
        make_private_directory(path.parent)
        try:
            _write_new(temporary, data)
            if exclusive:
                os.link(temporary, path, follow_symlinks=False)
            else:
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_directory(path.parent)
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFull(
                "The disk is full, nothing was changed. Free some space and try again."
            ) from error
        raise


def read_regular(path: Path, *, limit: int) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes.

    Never follows a symbolic link at ``path`` and never waits (for a FIFO's writer, say).

    Raises:
        FileNotFoundError: There is nothing at ``path``.
        UnreadableFileError: It is no regular file, is larger than ``limit``, or can't be read.
    """
    try:
        data = _read_at_most(path, limit + 1)
    except (FileNotFoundError, UnreadableFileError):
        raise
    except OSError as error:
        raise UnreadableFileError(path, _why_not(error)) from error
    if len(data) > limit:
        raise UnreadableFileError(path, f"larger than {limit} bytes")
    return data


def make_private_directory(directory: Path) -> None:
    """Make the directory and its missing parents with mode 0700; leave those that stand alone."""
    try:
        directory.mkdir(mode=PRIVATE_DIRECTORY)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_private_directory(directory.parent)
        make_private_directory(directory)


def sync_directory(directory: Path) -> None:
    """Put the directory's entries on disk, so that a new name or a removal survives a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_at_most(path: Path, size: int) -> bytes:
    descriptor = os.open(path, _READ)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableFileError(path, "not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(size)
    finally:
        os.close(descriptor)


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(path, _WRITE_NEW, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[file.write(remaining) :]
        os.fsync(descriptor)


def _why_not(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "a symbolic link"
    if error.errno == errno.ENXIO:
        return "not a regular file"
    return (error.strerror or "can't be read").lower()
