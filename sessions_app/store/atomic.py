"""Reads and writes single files: atomically, without following links or waiting.

Shared by all that is kept in files. Linux and macOS. Paths are text in here: pathlib took 450 of
the 1,730 calls that a turn made in threads.
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator

from sessions_app.errors import StorageFull, StorageReadOnly
from sessions_app.ids_and_clock import new_file_tag

StrPath = str | os.PathLike[str]

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20
_COMPARED = 1 << 18
_TEMPORARY = re.compile(r"\.[^/]{1,64}\.[0-9a-f]{16}\.tmp", re.DOTALL)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES})
_NOT_THE_FILES_FAULT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class UnreadableFileError(OSError):
    """The file is there but must not or can't be read; ``reason`` says why."""

    def __init__(self, path: StrPath, reason: str) -> None:
        super().__init__(f"{os.path.basename(path)}: {reason}")
        self.reason = reason


def write_atomically(
    path: StrPath,
    data: bytes | Iterable[bytes],
    *,
    exclusive: bool = False,
    durable: bool = True,
) -> None:
    """Replace the file at ``path`` as a whole, and sync it, or leave it untouched.

    The file gets mode 0600. Missing directories are made with mode 0700. A symbolic link at
    ``path`` is replaced, never followed.

    Args:
        path: Where the file shall be.
        data: Its whole content, in one piece or in several.
        exclusive: Fail if something stands there already; of several writers exactly one succeeds.
        durable: Wait until it would survive a power cut; False for what dies with the machine.

    Raises:
        FileExistsError: ``exclusive``, and ``path`` exists (as anything, a dangling link too).
        StorageFull: No space is left.
        StorageReadOnly: The directory can't be written to.
    """
    directory, slash, name = os.fspath(path).rpartition("/")
    directory += slash
    temporary = f"{directory}.{name[:64]}.{new_file_tag()}.tmp"
    try:
        descriptor = open_new(temporary, durable=durable)
        try:
            _write(descriptor, (data,) if isinstance(data, bytes) else data, durable=durable)
            if exclusive:
                os.link(temporary, path, follow_symlinks=False)
                os.unlink(temporary)
            else:
                os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        if durable:
            sync_directory(directory or os.curdir)
    except OSError as error:
        raise_if_unwritable(error)
        raise


def sweep_temporary_files(directory: StrPath, older_than_seconds: float) -> int:
    """Remove the temporary files of interrupted writers; return how many.

    Only regular files with names that ``write_atomically`` gives, and of that age: writing
    one takes milliseconds. A directory that is not there is an empty one.
    """
    newest = time.time() - older_than_seconds
    swept = 0
    try:
        with os.scandir(directory) as entries:
            found = [entry for entry in entries if _TEMPORARY.fullmatch(entry.name)]
    except (FileNotFoundError, NotADirectoryError):
        return 0
    for entry in found:
        with contextlib.suppress(FileNotFoundError):  # its writer, or another sweeper, was quicker
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_mtime <= newest:
                os.unlink(entry.path)
                swept += 1
    return swept


def raise_if_unwritable(error: OSError) -> None:
    """Raise the typed error for a write that failed because the disk is full or read-only.

    Raises:
        StorageFull: No space is left.
        StorageReadOnly: The file system, or the file's folder, does not let us write.
    """
    if error.errno in _FULL:
        raise StorageFull(
            "The disk is full, nothing was changed. Free some space and try again."
        ) from error
    if error.errno in _READ_ONLY:
        raise StorageReadOnly(
            "The data directory can't be written to, nothing was changed. Make it writable and "
            "try again."
        ) from error


@contextlib.contextmanager
def typed_errors() -> Iterator[None]:
    """Raise typed errors for writes that fail, as ``raise_if_unwritable`` does."""
    try:
        yield
    except OSError as error:
        raise_if_unwritable(error)
        raise


def read_regular(path: StrPath, *, limit: int) -> bytes:
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
        if error.errno in _NOT_THE_FILES_FAULT:
            raise
        raise UnreadableFileError(path, _why_not(error)) from error
    if len(data) > limit:
        raise UnreadableFileError(path, f"larger than {limit} bytes")
    return data


def holds(path: StrPath, data: bytes) -> bool:
    """Return whether a regular file holds exactly these bytes.

    It is read in pieces: a buffer for a large file costs more than the reading.
    """
    try:
        descriptor = os.open(path, _READ)
    except OSError:  # reading it says why
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != len(data):
            return False
        at = 0
        while piece := os.read(descriptor, _COMPARED):
            if not data.startswith(piece, at):
                return False
            at += len(piece)
        return at == len(data)
    finally:
        os.close(descriptor)


def make_private_directory(directory: StrPath, *, durable: bool = True) -> None:
    """Make the directory and its missing parents with mode 0700; leave those that stand alone.

    Args:
        directory: Where it shall be.
        durable: Put its name on disk, or all that is kept in it could vanish in a power cut. False
            for what dies with the machine; missing parents are durable all the same, because they
            may hold more than that.
    """
    parent = os.path.dirname(directory) or os.curdir
    try:
        try:
            os.mkdir(directory, PRIVATE_DIRECTORY)
        except FileNotFoundError:
            make_private_directory(parent)
            os.mkdir(directory, PRIVATE_DIRECTORY)  # once: some parents take nothing (/proc)
    except FileExistsError:
        return
    if durable:
        with contextlib.suppress(PermissionError):  # we may write to the parent, but not open it
            sync_directory(parent)


def sync_data(descriptor: int) -> None:
    """Sync a file's data to disk, so that it survives a power cut."""
    if sys.platform == "darwin":
        sync_file(descriptor)
    else:
        os.fdatasync(descriptor)


def sync_directory(directory: StrPath) -> None:
    """Sync a directory's entries to disk, so that new and removed names survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_at_most(path: StrPath, size: int) -> bytes:
    descriptor = os.open(path, _READ)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFileError(path, "not a regular file")
        if status.st_size >= size:  # read none of it, which may be anything up to the disk's size
            raise UnreadableFileError(path, f"larger than {size - 1} bytes")
        # A buffer for what is there: one for what may be there would cost more than the reading.
        data = os.read(descriptor, min(status.st_size + 1, size))
        if len(data) == status.st_size:
            return data
        while len(data) < size and (more := os.read(descriptor, min(_PIECE, size - len(data)))):
            data += more
        return data
    finally:
        os.close(descriptor)


def open_new(path: str, *, durable: bool) -> int:
    """Open a new private file to write to; missing directories are made."""
    try:
        return os.open(path, _WRITE_NEW, PRIVATE_FILE)
    except FileNotFoundError:
        make_private_directory(os.path.dirname(path), durable=durable)
        return os.open(path, _WRITE_NEW, PRIVATE_FILE)


def _write(descriptor: int, pieces: Iterable[bytes], *, durable: bool) -> None:
    """Write everything and close the descriptor."""
    try:
        for piece in pieces:
            write_all(descriptor, piece)
        if durable:
            sync_file(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview) -> int:
    """Write the data, however many writes that takes; return how many bytes they are."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
    return len(data)


def sync_file(descriptor: int) -> None:
    """Sync a file's data and all that is known of it, so that it survives a power cut."""
    if sys.platform == "darwin":
        # There, fsync leaves the data in the drive's own cache. Not every file system knows this.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def _why_not(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "a symbolic link"
    if error.errno == errno.ENXIO:
        return "not a regular file"
    return (error.strerror or "can't be read").lower()
