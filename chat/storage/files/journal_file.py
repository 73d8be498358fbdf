"""Reads and writes the file of one journal and its header line."""

import errno
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from chat.storage.journal import Fenced, do_nothing
from sessions_app.decoding import decoder_of
from sessions_app.store.atomic import PRIVATE_FILE, open_regular, sync_data, sync_directory
from sessions_app.store.holder import held_if_free, hold, is_held, try_hold

VERSION = 1
"""The format version, raised when older servers can't read it. Version 0 had no header."""
HEADER_LENGTH = 256


class Header(msgspec.Struct, frozen=True):
    """Represents the first line of a journal.

    Attributes:
        journal: The format version.
        sessions: The ``mark_of`` the sessions directory; empty if not bound to a directory.
    """

    journal: int
    sessions: str = ""

    @property
    def is_known(self) -> bool:
        """Return whether this server can read the journal's version."""
        return self.journal <= VERSION

    @property
    def line(self) -> str:
        """Format the header as a line."""
        return f'{{"journal":{self.journal},"sessions":"{self.sessions}"}}\n'


_decode = decoder_of(Header).decode


def header_of(path: str) -> Header | None:
    """Return the journal's header, or None if it has none."""
    try:
        descriptor, _ = open_regular(path)
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
    """Return a hash of the path of a sessions directory relative to the journals' directory.

    It does not change when both are moved together, as when a data directory is moved.
    """
    relative = os.path.relpath(os.path.realpath(sessions_dir), os.path.realpath(root))
    return hashlib.sha256(os.fsencode(relative)).hexdigest()[:16]


class FileJournalWriter:
    """Appends to one file. ``O_APPEND`` and one ``write`` per call keep lines whole.

    Args:
        path: The file.
        header: The first line of a new file; empty for an existing file.
        alone: Whether a file that a living process holds is refused with ``Fenced``.
    """

    __slots__ = ("_fd", "_is_name_durable", "_path")

    is_synchronous = True

    def __init__(
        self,
        path: str,
        *,
        header: str = "",
        alone: bool = False,
    ) -> None:
        self._path = path
        self._is_name_durable = False
        self._open(header, alone)

    def _open(self, header: str, alone: bool) -> None:
        path, flags = self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        if header:
            flags |= os.O_CREAT | os.O_EXCL
        self._fd = os.open(path, flags, PRIVATE_FILE)
        if not alone:
            hold(self._fd)
        while alone and not try_hold(self._fd):  # who only looks holds it for a moment, too
            if is_held(path):
                os.close(self._fd)
                raise Fenced(errno.EWOULDBLOCK, "a living process writes the journal", path)
        if header:
            try:
                self.append(header)
            except OSError:
                os.unlink(path)  # noqa: PTH108 - the path is text
                self.close()
                raise

    @property
    def is_removed(self) -> bool:
        """Return whether another process removed the new file before it was locked."""
        return not os.fstat(self._fd).st_nlink

    def append(self, lines: str, kept: Callable[[], None] = do_nothing) -> None:
        """Write whole lines; they are stored, in the page cache, when this returns.

        Runs on the event loop: a page-cache write costs less than a thread hop.
        """
        data = lines.encode("ascii")
        written = os.write(self._fd, data)
        if written < len(data):
            self._append_rest(data, written)
        if kept is not do_nothing:
            kept()

    def _append_rest(self, data: bytes, written: int) -> None:
        """Write the rest after a short write; if that fails, truncate to the old size and raise."""
        size = os.fstat(self._fd).st_size - written
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            with suppress(OSError):  # readers skip an incomplete line, and a takeover removes it
                os.ftruncate(self._fd, size)
            raise

    def on_failure(self, call: Callable[[OSError], None]) -> None:
        """Ignore the callback: ``append`` raises errors itself."""

    async def flushed(self) -> None:
        """Return immediately: appended lines are stored already."""

    def sync(self) -> None:
        """Sync the file to disk; the first time also the entries of the file and its directory."""
        sync_data(self._fd)
        if not self._is_name_durable:
            directory = os.path.dirname(self._path)  # noqa: PTH120 - the path is text
            sync_directory(directory)
            sync_directory(os.path.dirname(directory))  # noqa: PTH120
            self._is_name_durable = True

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class TakenOverJournal(FileJournalWriter):
    """Appends to a file whose writer died, after removing an incomplete last line.

    The file is opened with the first lines. No fencing is needed: the lock shows that the writer's
    process is dead.
    """

    __slots__ = ()

    def _open(self, header: str, alone: bool) -> None:  # noqa: ARG002 - there is a header
        self._fd = -1

    def append(self, lines: str, kept: Callable[[], None] = do_nothing) -> None:
        """Write whole lines."""
        if self._fd < 0:
            cut_torn_line(self._path)
            super()._open("", False)
        super().append(lines, kept)

    def sync(self) -> None:
        """Sync the file to disk."""
        if self._fd >= 0:
            super().sync()


def cut_torn_line(path: str) -> None:
    """Remove an incomplete last line, which a writer that died left."""
    content = Path(path).read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


def opened(path: str) -> BinaryIO:
    """Open a journal for reading as a file object; raises as ``open_regular``."""
    return os.fdopen(open_regular(path)[0], "rb")


def remove_unless_locked(path: str) -> bool:
    """Remove the file unless its lock is held; return whether it does not exist any more."""
    # A writer that has just created the file waits for its lock, then checks `is_removed`.
    with held_if_free(path) as is_free:
        if is_free:
            os.unlink(path)  # noqa: PTH108 - the path is text
    return is_free is not False
