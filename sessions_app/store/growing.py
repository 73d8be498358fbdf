"""Replaces large files that grow at their ends, writing only the new part (docs/decisions/0090).

A file is replaced atomically, as by ``write_atomically``: readers, and a crash, see the old or the
new one. But the new file is made from the previously replaced one, kept as the *spare*, which
already has most of the content. The spare is compared with the new content piece by piece, so it
may be in any state. If this process wrote the spare and recognizes it by its stamp, the common part
is not even read (docs/decisions/0103).

The spare has a name that no program reads, and is written to only while no other program has it
open, which a Linux file lease guarantees. Without leases, or if the spare has another hard link, a
new file is written.
"""

import contextlib
import fcntl
import os
import signal
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from sessions_app.ids_and_clock import new_file_tag
from sessions_app.store.atomic import (
    PRIVATE_FILE,
    open_new,
    raise_if_unwritable,
    sync_directory,
    sync_file,
    write_all,
)
from sessions_app.store.stamps import Stamp, renamed, stamp_of, stamped

LARGE = 512 * 1024
"""The minimum size of files with a spare: a smaller one is written in half a millisecond."""

SPARE_SECONDS = 600.0
"""The time after which an unused spare is swept."""

_COMPARED = 256 * 1024
"""The bytes compared in one step."""

_BLOCK = 4096
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SET_LEASE = getattr(fcntl, "F_SETLEASE", None)
_SET_SIGNAL = getattr(fcntl, "F_SETSIG", None)


class Range:
    """A byte range of a file, read on demand.

    Args:
        path: The file.
        stamp: The file's expected stamp.
        start: The start offset.
        length: The number of bytes.
    """

    def __init__(self, path: str, stamp: Stamp, start: int, length: int) -> None:
        self._path = path
        self._stamp = stamp
        self._start = start
        self._length = length

    def __len__(self) -> int:
        return self._length

    def pieces(self, skipped: int = 0) -> Iterator[bytes]:
        """Yield the bytes after the first ``skipped`` ones; raises ``FileChangedError``."""
        at, end = self._start + skipped, self._start + self._length
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise FileChangedError(self._path) from error
        try:
            self._require_stamp(descriptor)
            while at < end:
                piece = os.pread(descriptor, min(_COMPARED, end - at), at)
                if not piece:
                    raise FileChangedError(self._path)
                yield piece
                at += len(piece)
            self._require_stamp(descriptor)
        finally:
            os.close(descriptor)

    def _require_stamp(self, descriptor: int) -> None:
        if stamp_of(os.fstat(descriptor)) != self._stamp:
            raise FileChangedError(self._path)


class FileChangedError(Exception):
    """Another program changed a file while it was used."""


Parts = Sequence[bytes | memoryview | Range]
"""The parts of a file: its head, which is in memory, and the rest."""


class Shared(NamedTuple):
    """Describes what a spare has in common with the file to be written.

    Attributes:
        spare: The stamp of the spare.
        head: The length of its head.
        until: The offset up to which all bytes after the head are the same.
    """

    spare: Stamp
    head: int
    until: int


class Replaced(NamedTuple):
    """Describes how a file was replaced.

    Attributes:
        written: The number of bytes written.
        stamp: The file's new stamp; None if stamps are not supported.
    """

    written: int
    stamp: Stamp | None


def spare_of(path: str) -> str:
    """Return the path of a file's spare."""
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}.{name}.spare"


def replace_grown(
    path: str, parts: Parts, *, durable: bool = True, shared: Shared | None = None
) -> Replaced:
    """Replace a file by one that mostly continues it, and keep the old one as the next spare.

    Args:
        path: The path of the file.
        parts: The new content.
        durable: Wait until it would survive a power cut.
        shared: What the spare has in common with the new content, if known.

    Raises:
        FileChangedError: A file that parts refer to has changed.
        StorageFull: No space is left.
        StorageReadOnly: The directory can't be written to.
    """
    directory, spare, temporary = path.rpartition("/")[0], spare_of(path), _temporary(path)
    try:
        try:
            done = _completed(spare, temporary, parts, durable=durable, shared=shared)
            if done is None:
                temporary = _temporary(path)
                done = _written(temporary, parts, durable=durable)
            _keep_spare(path)
            os.replace(temporary, path)
        except BaseException:
            for left in (temporary, spare):
                with contextlib.suppress(OSError):
                    os.unlink(left)
            raise
        done = Replaced(done.written, renamed(done.stamp, path))
        if durable:
            sync_directory(directory or os.curdir)
    except OSError as error:
        raise_if_unwritable(error)
        raise
    return done


def drop_spare(path: str) -> None:
    """Remove a file's spare, if any, since it has earlier content of the file."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(spare_of(path))


def is_stale(spare: str) -> bool:
    """Return whether a spare has not been used for long; False if it does not exist."""
    try:
        return time.time() - os.lstat(spare).st_ctime > SPARE_SECONDS
    except FileNotFoundError:
        return False


def _temporary(path: str) -> str:
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}.{name[:64]}.{new_file_tag()}.tmp"


def _keep_spare(path: str) -> None:
    """Hard-link the file to the spare's name, so that it remains when it is replaced."""
    if _SET_LEASE is None:
        return
    drop_spare(path)
    with contextlib.suppress(OSError):  # then there is no spare
        os.link(path, spare_of(path), follow_symlinks=False)


def _written(temporary: str, parts: Parts, *, durable: bool) -> Replaced:
    """Write a new file."""
    descriptor = open_new(temporary, durable=durable)
    try:
        written = sum(write_all(descriptor, piece) for piece in grouped_by_size(parts))
        return Replaced(written, _finished(descriptor, durable=durable))
    finally:
        os.close(descriptor)


def _completed(
    spare: str, temporary: str, parts: Parts, *, durable: bool, shared: Shared | None
) -> Replaced | None:
    """Make the new file from the spare; return None if there is no usable spare."""
    try:
        # Files with that name are swept after a crash.
        os.rename(spare, temporary)
        descriptor = os.open(temporary, _OPEN)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return None
    try:
        if not _lease_exclusively(descriptor):
            os.unlink(temporary)
            return None
        if shared is not None and _matches(descriptor, parts, shared):
            written = _continue(descriptor, parts, shared.until)
        else:
            written = _complete(descriptor, parts)
        return Replaced(written, _finished(descriptor, durable=durable))
    finally:
        os.close(descriptor)  # which ends the lease


def _finished(descriptor: int, *, durable: bool) -> Stamp | None:
    """Stamp and sync a written file."""
    stamp = stamped(descriptor)
    if durable:
        sync_file(descriptor)
    return stamp


def _matches(descriptor: int, parts: Parts, shared: Shared) -> bool:
    """Return whether ``shared`` describes this spare and these parts."""
    found = stamp_of(os.fstat(descriptor))
    return len(parts[0]) == shared.head and found.is_same_content(shared.spare)


def _continue(descriptor: int, parts: Parts, until: int) -> int:
    """Write the head and all bytes after an offset; return the number of bytes written."""
    written = sum(write_all(descriptor, piece) for piece in _read(parts[0]))
    os.lseek(descriptor, until, os.SEEK_SET)
    offset = len(parts[0])
    for part in parts[1:]:
        skipped = min(max(until - offset, 0), len(part))
        offset += len(part)
        if skipped < len(part):
            written += sum(write_all(descriptor, piece) for piece in _read(part, skipped))
    os.ftruncate(descriptor, offset)
    return written


def _lease_exclusively(descriptor: int) -> bool:
    """Take a write lease; return False if others have the file open or it has another hard link."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        return False
    if stat.S_IMODE(status.st_mode) != PRIVATE_FILE or status.st_uid != os.geteuid():
        return False
    if _SET_LEASE is None or _SET_SIGNAL is None:
        return False
    try:
        # Other programs opening it wait for this lease. The kernel then sends a signal; the default
        # SIGIO would end the process, while SIGURG is ignored.
        fcntl.fcntl(descriptor, _SET_SIGNAL, signal.SIGURG)
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_WRLCK)
    except OSError:  # it is open elsewhere, or leases are not supported
        return False
    return True


def _complete(descriptor: int, parts: Parts) -> int:
    """Write the pieces that differ from the file; return the number of bytes written."""
    offset = written = 0
    same = True
    for number, piece in enumerate(grouped_by_size(parts)):
        new = piece
        # The head changes with every write, so it is not compared.
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
    """Return the length of the common prefix, rounded down to whole blocks."""
    if new == old:
        return len(new)
    blocks = range(0, min(len(new), len(old)) - _BLOCK + 1, _BLOCK)
    return next(
        (at for at in blocks if new[at : at + _BLOCK] != old[at : at + _BLOCK]),
        len(blocks) * _BLOCK,
    )


def grouped_by_size(parts: Parts) -> Iterator[bytes]:
    """Yield the first part, then the others in pieces for comparison."""
    yield b"".join(_read(parts[0]))
    piece: list[bytes | memoryview] = []
    size = 0
    for some in chain.from_iterable(map(_read, parts[1:])):
        view = memoryview(some)
        while view:
            taken = view[: _COMPARED - size]
            piece.append(taken)
            size += len(taken)
            view = view[len(taken) :]
            if size == _COMPARED:
                yield b"".join(piece)
                piece, size = [], 0
    if piece:
        yield b"".join(piece)


def _read(part: bytes | memoryview | Range, skipped: int = 0) -> Iterable[bytes | memoryview]:
    """Return the bytes of a part after the first ``skipped`` ones, in one or several pieces."""
    return part.pieces(skipped) if isinstance(part, Range) else (part[skipped:],)
