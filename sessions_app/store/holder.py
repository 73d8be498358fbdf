"""Holds files for as long as a process lives, and tells whether a living process holds one.

The system drops a ``flock`` with its last process, however that ends. So a dead holder is
recognized at once, without timeouts, and a living one never counts as dead.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sessions_app.store.atomic import PRIVATE_FILE, StrPath, make_private_directory, write_all

_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO})


class Holder:
    """A file that this process holds until it releases it or ends.

    Args:
        path: The file.
        descriptor: The open file, already locked.
    """

    def __init__(self, path: StrPath, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: StrPath) -> "Holder | None":
        """Hold a file, which is created if it is missing; return None if another one holds it.

        Raises:
            OSError: The file can't be opened or created.
        """
        descriptor = _open(path)
        if try_hold(descriptor):
            holder = cls(path, descriptor)
            if holder.is_in_place:
                return holder
            # It was removed meanwhile: others hold a new one.
        os.close(descriptor)
        return None

    @classmethod
    def create(cls, path: StrPath) -> "Holder":
        """Create a file and hold it.

        Raises:
            FileExistsError: The file exists.
            OSError: The file can't be created.
        """
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE, PRIVATE_FILE)
            # Waits for one that tries the lock of what looks like a dead process's file.
            hold(descriptor)
            if os.fstat(descriptor).st_nlink:
                return cls(path, descriptor)
            os.close(descriptor)

    @classmethod
    def join(cls, path: StrPath, *, alone: Callable[[], object]) -> "Holder":
        """Hold a file together with others.

        Args:
            path: The file, which is created if it is missing.
            alone: Called if no other process holds the file; others wait until it returns.

        Raises:
            OSError: The file can't be opened or created.
        """
        descriptor = _open(path)
        if try_hold(descriptor):
            alone()
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return cls(path, descriptor)

    @property
    def is_in_place(self) -> bool:
        """Return whether the file is still the one at its path."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def write(self, data: bytes) -> None:
        """Replace the content of the file.

        Raises:
            OSError: It can't be written.
        """
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.ftruncate(self._descriptor, write_all(self._descriptor, data))

    def release(self) -> None:
        """Stop holding the file; call once."""
        os.close(self._descriptor)


def hold(descriptor: int) -> None:
    """Hold an open file, once nobody else does."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def try_hold(descriptor: int) -> bool:
    """Hold an open file if nobody else does; return whether that succeeded."""
    return _try(descriptor, fcntl.LOCK_EX)


def is_held(path: StrPath) -> bool | None:
    """Return whether a living process holds a file; None if there is no regular file.

    Raises:
        OSError: The file exists and can't be opened.
    """
    with held_if_free(path, shared=True) as is_free:
        return None if is_free is None else not is_free


@contextmanager
def held_if_free(path: StrPath, *, shared: bool = False) -> Iterator[bool | None]:
    """Hold a file for the block if nobody else does, without waiting.

    Yields True if it was free, False if it is held, and None if there is no regular file.

    Args:
        path: The file, which is not created.
        shared: Whether others may do the same meanwhile, for which the file need not be writable:
            otherwise it is opened for writing, as NFS requires.

    Raises:
        OSError: The file exists and can't be opened.
    """
    try:
        descriptor = os.open(path, _SAFE | (os.O_RDONLY if shared else os.O_RDWR))
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        yield None
        return
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield None
        elif not _try(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
            yield False
        else:
            yield True if os.fstat(descriptor).st_nlink else None  # removed meanwhile
    finally:
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: StrPath) -> int:
    flags = os.O_RDWR | os.O_CREAT | _SAFE
    try:
        return os.open(path, flags, PRIVATE_FILE)
    except FileNotFoundError:
        make_private_directory(os.path.dirname(path))
        return os.open(path, flags, PRIVATE_FILE)
