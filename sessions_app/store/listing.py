"""Lists a directory of sessions, reading only files that have changed."""

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from sessions_app.errors import SessionCorrupt
from sessions_app.format.codec import decode, decode_head
from sessions_app.ids_and_clock import SESSION_ID
from sessions_app.session import SessionMetadata
from sessions_app.store.atomic import StrPath, UnreadableFileError, read_regular
from sessions_app.store.repository import Found, Listing, Unreadable, listing_of

FILE_NAME = re.compile(rf"{SESSION_ID}\.json", re.ASCII)
HEAD_SIZE = 8 * 1024
TAIL_SIZE = 16
CLOCK_TICK_NS = 2_000_000_000

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _File(NamedTuple):
    """A file as it was read.

    Attributes:
        stamp: A hash of its inode, size and times.
        is_settled: Whether a further change would alter the stamp, being in a later clock tick.
        found: The metadata of its session, or why it can't be read.
    """

    stamp: int
    is_settled: bool
    found: Found


class CachedListing:
    """A cache of the metadata of a directory's session files.

    A file is read again when its inode, size or times change, only its head if that suffices.
    Thread-safe. A listing costs a ``stat`` of each file, because nothing else shows all changes
    (docs/decisions/0220).

    Args:
        directory: The directory.
        size_limit: The maximum size of files to read.
        clock_ns: Returns the time, in nanoseconds since 1970.
    """

    def __init__(
        self,
        directory: Path,
        *,
        size_limit: int,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._directory = directory
        self._size_limit = size_limit
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._begun = self._ended = 0  # counts looks at all files
        self._files: dict[str, _File] = {}
        self._listing = listing_of(())

    def list(self) -> Listing:
        """Return the readable sessions, most recently updated first, and the files that are not."""
        asked = self._begun
        with self._lock:
            # Whoever waited takes what a look found that began after its call: many share one.
            if self._ended <= asked:
                self._begun += 1
                self._look()
                self._ended = self._begun
            return self._listing

    def _look(self) -> None:
        """Look at all files, and read those that changed."""
        now = self._clock_ns()
        files: dict[str, _File] = {}
        has_changed = False
        for name, status in self._statuses():
            known = self._files.get(name)
            stamp = hash((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
            if known is None or known.stamp != stamp or not known.is_settled:
                has_changed = True
                try:
                    found = self._read(name, status)
                except FileNotFoundError:
                    continue
                written_at = max(status.st_mtime_ns, status.st_ctime_ns)
                known = _File(stamp, now - written_at > CLOCK_TICK_NS, found)
            files[name] = known
        if has_changed or len(files) < len(self._files):
            self._listing = _listing_of(files.values())
        self._files = files

    def _statuses(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the names and states of all files.

        Known names are looked up as well as those that the directory lists, which may lack one that
        is replaced at this moment.
        """
        try:
            # Looking names up relative to an open directory is faster than by path.
            directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            new = set(os.listdir(directory)) - self._files.keys()  # noqa: PTH208 - a descriptor
            for name in (*self._files, *filter(FILE_NAME.fullmatch, new)):
                try:
                    yield name, os.stat(name, dir_fd=directory, follow_symlinks=False)
                except FileNotFoundError:
                    continue
        finally:
            os.close(directory)

    def _read(self, name: str, status: os.stat_result) -> Found:
        session_id = name.removesuffix(".json")
        if stat.S_ISREG(status.st_mode) and status.st_size <= self._size_limit:
            # A string: making a Path takes as long as reading the head.
            metadata = read_head(f"{self._directory}/{name}", session_id)
            if metadata is not None:
                return metadata
        try:
            data = read_regular(self._directory / name, limit=self._size_limit)
            return decode(data, session_id).metadata
        except (UnreadableFileError, SessionCorrupt) as error:
            return Unreadable(file=name, reason=error.reason)


def _listing_of(files: Collection[_File]) -> Listing:
    stamps = {
        # with the time of the change, as a clock of files may be coarse
        file.found.session_id: f"{file.stamp:x} {file.found.updated_at}"
        for file in files
        if isinstance(file.found, SessionMetadata)
    }
    return listing_of((file.found for file in files), stamps)


def read_head(path: StrPath, session_id: str) -> SessionMetadata | None:
    """Return the metadata from the file's beginning, if its end looks complete."""
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return None  # reading the whole file raises the error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        head = os.pread(descriptor, HEAD_SIZE, 0)
        tail = os.pread(descriptor, TAIL_SIZE, max(0, status.st_size - TAIL_SIZE))
    finally:
        os.close(descriptor)
    # In an indented file only the last line is a closing brace alone.
    return decode_head(head, session_id) if tail.rstrip().endswith(b"\n}") else None
