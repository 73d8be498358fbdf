"""Rewrites large files that grow at their ends; only the new part is written (docs/decisions/0090).

A file is replaced as a whole, as by ``write_atomically``: whoever reads it has the old one or the
new one, and so has a crash. But the new one is made of the file that was replaced last time, which
is kept beside it as the *spare*: most of what it shall hold stands in it already. That is compared,
piece by piece, so that it does not matter who wrote the spare, when, or how far. Where this process
wrote the spare, and knows it by its stamp, what it shares with the new file is not even read
(docs/decisions/0103).

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
"""Bytes from which on a file is worth a spare: a smaller one is written in half a millisecond."""

SPARE_SECONDS = 600.0
"""The time after which a spare that nobody needed is swept."""

_COMPARED = 256 * 1024
"""Bytes that are read and compared at once."""

_BLOCK = 4096
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SET_LEASE = getattr(fcntl, "F_SETLEASE", None)
_SET_SIGNAL = getattr(fcntl, "F_SETSIG", None)


class Range:
    """Bytes that stand in a file of ours, and are read when they are needed.

    Args:
        path: The file.
        stamp: What it bears.
        start: Where they begin.
        length: How many they are.
    """

    def __init__(self, path: str, stamp: Stamp, start: int, length: int) -> None:
        self._path = path
        self._stamp = stamp
        self._start = start
        self._length = length

    def __len__(self) -> int:
        return self._length

    def pieces(self, skipped: int = 0) -> Iterator[bytes]:
        """Yield them but for some at the beginning; raises ``FileChangedError``."""
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
"""A file: its head, which is in memory, and the rest."""


class Shared(NamedTuple):
    """Tells what a spare has in common with the file that is to be written.

    Attributes:
        spare: The stamp of the spare.
        head: How long its first part is.
        until: Up to where all behind the first part is the same.
    """

    spare: Stamp
    head: int
    until: int


class Replaced(NamedTuple):
    """Describes how a file was replaced.

    Attributes:
        written: How many bytes had to be written.
        stamp: What the file bears now, if it can be known by that.
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
    """Replace a file by one that mostly continues it, and keep it as the spare for the next time.

    Args:
        path: Where the file stands.
        parts: What it shall hold.
        durable: Wait until it would survive a power cut.
        shared: What is known of the spare.

    Raises:
        FileChangedError: Parts of another file are not what they were.
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


def _written(temporary: str, parts: Parts, *, durable: bool) -> Replaced:
    """Write a new file."""
    descriptor = open_new(temporary, durable=durable)
    try:
        written = sum(write_all(descriptor, piece) for piece in in_pieces(parts))
        return Replaced(written, _finished(descriptor, durable=durable))
    finally:
        os.close(descriptor)


def _completed(
    spare: str, temporary: str, parts: Parts, *, durable: bool, shared: Shared | None
) -> Replaced | None:
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
        if shared is not None and _is_as_known(descriptor, parts, shared):
            written = _continue(descriptor, parts, shared.until)
        else:
            written = _complete(descriptor, parts)
        return Replaced(written, _finished(descriptor, durable=durable))
    finally:
        os.close(descriptor)  # which ends the lease


def _finished(descriptor: int, *, durable: bool) -> Stamp | None:
    """Stamp and sync a file that is written."""
    stamp = stamped(descriptor)
    if durable:
        sync_file(descriptor)
    return stamp


def _is_as_known(descriptor: int, parts: Parts, shared: Shared) -> bool:
    """Return whether the spare, which is ours alone, is the one of which something is known."""
    found = stamp_of(os.fstat(descriptor))
    return len(parts[0]) == shared.head and found.is_same_content(shared.spare)


def _continue(descriptor: int, parts: Parts, until: int) -> int:
    """Write the first part, and all that stands behind a place; return how many bytes that are."""
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
    for number, piece in enumerate(in_pieces(parts)):
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


def in_pieces(parts: Parts) -> Iterator[bytes]:
    """Yield the first part, and then the others in pieces that are read and compared at once."""
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
    """Return the bytes of a part but for some at the beginning, in one piece or in several."""
    return part.pieces(skipped) if isinstance(part, Range) else (part[skipped:],)
