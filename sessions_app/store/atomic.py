"""Reads and writes single files atomically, without following links or blocking on pipes.

Shared by all file storage, on Linux and macOS. Paths are strings in here: pathlib took 450 of the
1,730 calls that a turn made in threads.
"""

import codecs
import contextlib
import errno
import fcntl
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator

from sessions_app.errors import StorageFull, StorageReadOnly, StorageUnavailable
from sessions_app.ids_and_clock import new_file_tag

StrPath = str | os.PathLike[str]

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20
# Earlier releases kept the previous file of a large session as a "spare".
_TEMPORARY = re.compile(r"\.[^/]{1,64}\.(?:[0-9a-f]{16}\.tmp|json\.spare)", re.DOTALL)
_NO_FILE = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENXIO})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES})
_UNUSABLE = frozenset({errno.ENOTDIR, errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENOTCONN})
_NOT_THE_FILES_FAULT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOTDIR})


class UnreadableFileError(OSError):
    """The file exists but must not or can't be read; ``reason`` says why."""

    def __init__(self, path: StrPath, reason: str) -> None:
        super().__init__(f"{os.path.basename(path)}: {reason}")
        self.reason = reason


def write_atomically(
    path: StrPath,
    data: bytes | Iterable[bytes | memoryview],
    *,
    exclusive: bool = False,
    durable: bool = True,
) -> None:
    """Replace the file at ``path`` atomically and sync it.

    The file gets mode 0600. Missing directories are created with mode 0700. A symbolic link at
    ``path`` is replaced, never followed. On an error the old file is unchanged.

    Args:
        path: The path of the file.
        data: The whole content, in one piece or in several.
        exclusive: Fail if the path exists; of several writers exactly one succeeds.
        durable: Wait until the file would survive a power cut; False for data that need not.

    Raises:
        FileExistsError: ``exclusive``, and ``path`` exists (as anything, even a dangling link).
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

    Removes only files and links older than that with names as given by ``write_atomically``, which
    takes milliseconds. A missing directory counts as empty.
    """
    newest = time.time() - older_than_seconds
    swept = 0
    try:
        with os.scandir(directory) as entries:
            found = [entry for entry in entries if _TEMPORARY.fullmatch(entry.name)]
    except (FileNotFoundError, NotADirectoryError):
        return 0
    for entry in found:
        with contextlib.suppress(FileNotFoundError):  # its writer, or another sweeper, was faster
            status = entry.stat(follow_symlinks=False)
            is_written = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
            if is_written and status.st_mtime <= newest:
                os.unlink(entry.path)
                swept += 1
    return swept


def raise_if_unwritable(error: OSError) -> None:
    """Raise the typed error for a failure of the disk or of a directory.

    Raises:
        StorageFull: No space is left.
        StorageReadOnly: The file system or the directory is not writable.
        StorageUnavailable: Something else is in the directory's place, or it can't be read.
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
    if error.errno in _UNUSABLE:
        raise StorageUnavailable(
            "A directory of this server's data can't be used "
            f"({os.strerror(error.errno).lower()}). Its log says which: fix it and try again."
        ) from error


@contextlib.contextmanager
def typed_errors() -> Iterator[None]:
    """Translate errors of writes in the block, as ``raise_if_unwritable`` does."""
    try:
        yield
    except OSError as error:
        raise_if_unwritable(error)
        raise


def read_regular(path: StrPath, *, limit: int) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes, without a UTF-8 mark.

    Editors on Windows begin files with that mark (EF BB BF), which JSON decoders refuse. Never
    follows a symbolic link at ``path`` and never blocks (on a FIFO, for example).

    Raises:
        FileNotFoundError: The path does not exist.
        UnreadableFileError: It is not a regular file, is larger than ``limit``, or can't be read.
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
    return data.removeprefix(codecs.BOM_UTF8)


def open_regular(path: StrPath) -> tuple[int, int]:
    """Open a file for reading, without following links or blocking on a pipe.

    Returns:
        The descriptor, and the file's size in bytes.

    Raises:
        FileNotFoundError: There is no regular file at the path.
    """
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise FileNotFoundError(errno.ENOENT, "no regular file", path) from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "no regular file", path)
    return descriptor, status.st_size


def make_private_directory(directory: StrPath, *, durable: bool = True) -> None:
    """Create the directory and its missing parents with mode 0700; leave existing ones unchanged.

    Args:
        directory: The path of the directory.
        durable: Sync its name to disk, so that its content survives a power cut. False for data
            that need not; missing parents are synced all the same, since they may hold other data.
    """
    parent = os.path.dirname(directory) or os.curdir
    try:
        try:
            os.mkdir(directory, PRIVATE_DIRECTORY)
        except FileNotFoundError:
            make_private_directory(parent)
            os.mkdir(directory, PRIVATE_DIRECTORY)  # not retried: some parents allow none (/proc)
    except FileExistsError:
        if not os.path.isdir(directory):
            raise NotADirectoryError(
                errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(directory)
            ) from None
        return
    if durable:
        with contextlib.suppress(PermissionError):  # the parent may be writable but not readable
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
        if status.st_size >= size:  # before reading, as it may be as large as the disk
            raise UnreadableFileError(path, f"larger than {size - 1} bytes")
        # The buffer has the file's size: allocating one of the limit would cost more than reading.
        data = os.read(descriptor, min(status.st_size + 1, size))
        if len(data) == status.st_size:
            return data
        while len(data) < size and (more := os.read(descriptor, min(_PIECE, size - len(data)))):
            data += more
        return data
    finally:
        os.close(descriptor)


def open_new(path: str, *, durable: bool) -> int:
    """Create and open a private file for writing; create missing directories."""
    try:
        return os.open(path, _WRITE_NEW, PRIVATE_FILE)
    except FileNotFoundError:
        make_private_directory(os.path.dirname(path), durable=durable)
        return os.open(path, _WRITE_NEW, PRIVATE_FILE)


def _write(descriptor: int, pieces: Iterable[bytes | memoryview], *, durable: bool) -> None:
    """Write all pieces and close the descriptor."""
    try:
        for piece in pieces:
            write_all(descriptor, piece)
        if durable:
            sync_file(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview) -> int:
    """Write all data, also after short writes; return the number of bytes."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
    return len(data)


def sync_file(descriptor: int) -> None:
    """Sync a file's data and metadata to disk, so that it survives a power cut."""
    if sys.platform == "darwin":
        # On macOS, fsync leaves data in the drive's cache. Not every file system supports this.
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
