"""Reads files that only this user may write: secrets, and the record of trusted folders."""

import errno
import os
import stat
from pathlib import Path

from sessions_app.store.atomic import PRIVATE_FILE

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_READ = stat.S_IRGRP | stat.S_IROTH


class UnsafeFileError(OSError):
    """The file could be written by others; ``reason`` says why, as the end of a sentence."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(errno.EPERM, reason, str(path))
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.filename} {self.reason}"


def read_own_file(path: Path, *, limit: int) -> bytes:
    """Return the content of a regular file that only this user can write.

    A file that others may read is made private first, not refused: restored backups have such
    modes.

    Raises:
        FileNotFoundError: There is nothing at ``path``.
        UnsafeFileError: It is a symbolic link or no regular file, has another owner, can be
            written by others, or is larger than ``limit`` bytes.
        OSError: It can't be read.
    """
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsafeFileError(path, "is a symbolic link") from error
        if error.errno == errno.ENXIO:  # a socket
            raise UnsafeFileError(path, "is not a regular file") from error
        raise
    try:
        status = os.fstat(descriptor)
        if reason := _why_unsafe(status, limit):
            raise UnsafeFileError(path, reason)
        if status.st_mode & _OTHERS_READ:
            _make_private(descriptor)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


def _why_unsafe(status: os.stat_result, limit: int) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if status.st_uid != os.geteuid():
        return f"belongs to another user (uid {status.st_uid})"
    if status.st_mode & _OTHERS_WRITE:
        return "can be written by other users"
    if status.st_size > limit:
        return f"is larger than {limit} bytes"
    return None


def _make_private(descriptor: int) -> None:
    try:
        os.fchmod(descriptor, PRIVATE_FILE)
    except OSError as error:
        # A read-only file system, or one without modes: the mount decides who may read.
        if error.errno not in {errno.EROFS, errno.EPERM, errno.ENOTSUP}:
            raise
