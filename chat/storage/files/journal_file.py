"""Reads and writes the file of one journal, its header first."""

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from chat.storage.journal import do_nothing
from sessions_app.decoding import decoder_of
from sessions_app.store.atomic import PRIVATE_FILE, sync_data, sync_directory
from sessions_app.store.locks import try_lock

VERSION = 1
"""Of the format. Version 0 had no header; the version changes when older servers can't read it."""
HEADER_LENGTH = 256


class Header(msgspec.Struct, frozen=True):
    """Represents the first line of a journal.

    Attributes:
        journal: The version of the format.
        sessions: The directory of its session; empty where no directory is meant.
    """

    journal: int
    sessions: str = ""

    @property
    def is_known(self) -> bool:
        """Return whether journals of its version can be read."""
        return self.journal <= VERSION

    @property
    def line(self) -> str:
        """Return the header as it is written."""
        return f'{{"journal":{self.journal},"sessions":"{self.sessions}"}}\n'


_decode = decoder_of(Header).decode


def header_of(path: str) -> Header | None:
    """Return the journal's header; None where there is none."""
    try:
        descriptor, _ = open_journal(path)
    except FileNotFoundError:
        return None
    try:
        head = os.pread(descriptor, HEADER_LENGTH, 0)
    finally:
        os.close(descriptor)
    try:
        return _decode(head.partition(b"\n")[0])
    except msgspec.MsgspecError:
        return None


def is_header(line: bytes) -> bool:
    """Return whether the line is a journal's header, of any version."""
    try:
        _decode(line)
    except msgspec.MsgspecError:
        return False
    return True


def mark_of(sessions_dir: Path, root: Path) -> str:
    """Return the mark of a directory of sessions, relative to that of their journals.

    It stays the same when both are moved together, as a data directory is.
    """
    way = os.path.relpath(os.path.realpath(sessions_dir), os.path.realpath(root))
    return hashlib.sha256(os.fsencode(way)).hexdigest()[:16]


class FileJournalWriter:
    """Appends to one file. ``O_APPEND`` and one ``write`` a call keep lines whole.

    Args:
        path: The file.
        header: The first line of a new file; empty for one that is there.
        closed: Called before the file is closed.
    """

    __slots__ = ("_closed", "_fd", "_is_known", "_path")

    keeps_at_once = True

    def __init__(
        self, path: str, *, header: str = "", closed: Callable[[], object] = do_nothing
    ) -> None:
        self._closed = closed
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        if header:
            flags |= os.O_CREAT | os.O_EXCL
        self._fd = os.open(path, flags, PRIVATE_FILE)
        self._path = path
        self._is_known = False  # by its directory, after a power cut
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        if header:
            try:
                self.append(header)
            except OSError:
                os.unlink(path)  # noqa: PTH108 - the path is text
                self.close()
                raise

    @property
    def is_removed(self) -> bool:
        """Return whether the file was removed as a dead writer's before it was locked."""
        return not os.fstat(self._fd).st_nlink

    def append(self, lines: str, kept: Callable[[], None] = do_nothing) -> None:
        """Write whole lines, which are kept at once: the system has them.

        Inline: a page-cache write costs less than a thread hop.
        """
        data = lines.encode("ascii")
        written = os.write(self._fd, data)
        if written < len(data):
            self._append_rest(data, written)
        if kept is not do_nothing:
            kept()

    def _append_rest(self, data: bytes, written: int) -> None:
        """Write what one call did not take; a full disk raises, and takes back what it took."""
        size = os.fstat(self._fd).st_size - written
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            with suppress(OSError):  # readers leave a torn line out, and who goes on cuts it off
                os.ftruncate(self._fd, size)
            raise

    def when_troubled(self, call: Callable[[OSError], None]) -> None:
        """Ignore the call: ``append`` itself raises what is wrong with a file."""

    async def flushed(self) -> None:
        """Return at once: what was appended is kept."""

    def sync(self) -> None:
        """Put what was written on disk; the first time its name too, and its directory's."""
        sync_data(self._fd)
        if not self._is_known:
            directory = os.path.dirname(self._path)  # noqa: PTH120 - the path is text
            sync_directory(directory)
            sync_directory(os.path.dirname(directory))  # noqa: PTH120
            self._is_known = True

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        if self._fd >= 0:
            self._closed()
            os.close(self._fd)
            self._fd = -1


class TakenOverJournal:
    """Appends to a file whose writer died, after cutting off what that left half-written.

    A dead process writes nothing more, so the file needs no other fence.
    """

    keeps_at_once = True

    def __init__(self, path: str) -> None:
        self._path = path
        self._writer: FileJournalWriter | None = None

    def append(self, lines: str, kept: Callable[[], None] = do_nothing) -> None:
        """Write whole lines."""
        if self._writer is None:
            content = Path(self._path).read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                os.truncate(self._path, whole)
            self._writer = FileJournalWriter(self._path)
        self._writer.append(lines, kept)

    def when_troubled(self, call: Callable[[OSError], None]) -> None:
        """Ignore the call: ``append`` itself raises what is wrong with a file."""

    async def flushed(self) -> None:
        """Return at once: what was appended is kept."""

    def sync(self) -> None:
        """Put what was written on disk."""
        if self._writer is not None:
            self._writer.sync()

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        if self._writer is not None:
            self._writer.close()


def opened(path: str) -> BinaryIO:
    """Open a journal to read it as a file; raises as ``open_journal``."""
    return os.fdopen(open_journal(path)[0], "rb")


def open_journal(path: str) -> tuple[int, int]:
    """Open a journal to read it; never through a link, and never waiting for a pipe's writer.

    Returns:
        The descriptor, and the file's size in bytes.

    Raises:
        FileNotFoundError: There is none.
    """
    descriptor = _open(path)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "no journal", path)
    return descriptor, status.st_size


def is_locked(path: str) -> bool | None:
    """Return whether a writer holds a journal's lock; None where there is no journal."""
    try:
        descriptor = _open(path)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}:
            raise FileNotFoundError(errno.ENOENT, "no journal", path) from error
        raise


def remove_unless_locked(path: str) -> bool:
    """Remove the file unless its lock is held; return whether it is gone."""
    # A writer that has just made the file waits for its lock, and then sees that it is gone.
    with try_lock(path, exclusive=True) as is_free:
        if is_free:
            os.unlink(path)  # noqa: PTH108 - the path is text
    return is_free is not False
