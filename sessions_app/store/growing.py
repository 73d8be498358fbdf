"""Replaces large files that grow at their ends, writing what is new (docs/decisions/0090).

A file is replaced as a whole, as by ``write_atomically``: whoever reads it has the old one or the
new one, and so has a crash. But the new one is made of the file that was replaced last time, which
is kept beside it as the *spare*: most of what it shall hold stands in it already. That is compared,
piece by piece, so that it does not matter who wrote the spare, when, or how far.

Nobody can see that happen. The spare has a name that nobody reads, and is written to only while no
program has it open: Linux tells by giving us a lease on it. Where there are no leases, or the file
has another name too, a new file is written.
"""

import contextlib
import fcntl
import os
import signal
import stat
import time
from collections.abc import Iterator, Sequence

from sessions_app.ids_and_clock import new_file_tag
from sessions_app.store.atomic import (
    PRIVATE_FILE,
    open_new,
    raise_if_unwritable,
    sync_directory,
    sync_file,
    write_all,
)

LARGE = 512 * 1024
"""Bytes from which on a file is worth a spare: a smaller one is written in half a millisecond."""

SPARE_SECONDS = 600.0
"""The time after which a spare that nobody needed is swept."""

_COMPARED = 256 * 1024
"""Bytes that are read and compared at once."""

_BLOCK = 4096
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SET_LEASE = getattr(fcntl, "F_SETLEASE", None)
_SET_SIGNAL = getattr(fcntl, "F_SETSIG", None)

Parts = Sequence[bytes | memoryview]


def spare_of(path: str) -> str:
    """Return the path of a file's spare."""
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}.{name}.spare"


def replace_grown(path: str, parts: Parts, *, durable: bool = True) -> int:
    """Replace a file by one that mostly continues it, and keep it as the spare for the next time.

    Args:
        path: Where the file stands.
        parts: What it shall hold.
        durable: Wait until it would survive a power cut.

    Returns:
        The number of bytes that had to be written.

    Raises:
        StorageFull: No space is left.
        StorageReadOnly: The directory can't be written to.
    """
    directory, spare, temporary = path.rpartition("/")[0], spare_of(path), _temporary(path)
    try:
        try:
            written = _completed(spare, temporary, parts, durable=durable)
            if written is None:
                temporary = _temporary(path)
                written = _written(temporary, parts, durable=durable)
            _keep_spare(path)
            os.replace(temporary, path)
        except BaseException:
            for left in (temporary, spare):
                with contextlib.suppress(OSError):
                    os.unlink(left)
            raise
        if durable:
            sync_directory(directory or os.curdir)
    except OSError as error:
        raise_if_unwritable(error)
        raise
    return written


def drop_spare(path: str) -> None:
    """Remove a file's spare, if there is one: it holds what the file held before."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(spare_of(path))


def is_stale(spare: str) -> bool:
    """Return whether a spare was not needed for long; one that is gone was not."""
    try:
        return time.time() - os.lstat(spare).st_ctime > SPARE_SECONDS
    except FileNotFoundError:
        return False


def _temporary(path: str) -> str:
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}.{name[:64]}.{new_file_tag()}.tmp"


def _keep_spare(path: str) -> None:
    """Give the file a second name, under which it stays when it is replaced."""
    if _SET_LEASE is None:
        return
    drop_spare(path)
    with contextlib.suppress(OSError):  # then there is none
        os.link(path, spare_of(path), follow_symlinks=False)


def _written(temporary: str, parts: Parts, *, durable: bool) -> int:
    """Write a new file."""
    descriptor = open_new(temporary, durable=durable)
    try:
        written = sum(write_all(descriptor, piece) for piece in _joined(parts))
        if durable:
            sync_file(descriptor)
    finally:
        os.close(descriptor)
    return written


def _completed(spare: str, temporary: str, parts: Parts, *, durable: bool) -> int | None:
    """Make the new file of the spare; None where there is none to be had."""
    try:
        # Under that name, what is left by a crash is swept.
        os.rename(spare, temporary)
        descriptor = os.open(temporary, _OPEN)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return None
    try:
        if not _is_ours_alone(descriptor):
            os.unlink(temporary)
            return None
        written = _complete(descriptor, parts)
        if durable:
            sync_file(descriptor)
    finally:
        os.close(descriptor)  # which ends the lease
    return written


def _is_ours_alone(descriptor: int) -> bool:
    """Return whether nobody else reads or writes the file, or knows it by another name."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        return False
    if stat.S_IMODE(status.st_mode) != PRIVATE_FILE or status.st_uid != os.geteuid():
        return False
    if _SET_LEASE is None or _SET_SIGNAL is None:
        return False
    try:
        # Who opens it meanwhile waits for us. We are told of that by a signal, of which the usual
        # one would end the process; this one is ignored.
        fcntl.fcntl(descriptor, _SET_SIGNAL, signal.SIGURG)
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_WRLCK)
    except OSError:  # it is open elsewhere, or there are no leases here
        return False
    return True


def _complete(descriptor: int, parts: Parts) -> int:
    """Write what the file does not hold yet; return how many bytes that are."""
    offset = written = 0
    same = True
    for number, piece in enumerate(_joined(parts)):
        new = piece
        # The first piece begins with what changes with every write.
        if same and number:
            common = _common_length(piece, os.pread(descriptor, len(piece), offset))
            offset += common
            same, new = common == len(piece), piece[common:]
        if new:
            os.lseek(descriptor, offset, os.SEEK_SET)
            written += write_all(descriptor, new)
            offset += len(new)
    os.ftruncate(descriptor, offset)
    return written


def _common_length(new: bytes, old: bytes) -> int:
    """Return how many bytes are the same at the beginning of both; a part of a block counts not."""
    if new == old:
        return len(new)
    blocks = range(0, min(len(new), len(old)) - _BLOCK + 1, _BLOCK)
    return next(
        (at for at in blocks if new[at : at + _BLOCK] != old[at : at + _BLOCK]),
        len(blocks) * _BLOCK,
    )


def _joined(parts: Parts) -> Iterator[bytes]:
    """Yield the first part, and then the others in pieces that are read and compared at once."""
    yield bytes(parts[0])
    piece: list[bytes | memoryview] = []
    size = 0
    for part in parts[1:]:
        view = memoryview(part)
        while view:
            some = view[: _COMPARED - size]
            piece.append(some)
            size += len(some)
            view = view[len(some) :]
            if size == _COMPARED:
                yield b"".join(piece)
                piece, size = [], 0
    if piece:
        yield b"".join(piece)
