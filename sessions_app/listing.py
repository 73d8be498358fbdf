"""Listing a directory of sessions without reading what has not changed."""

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sessions_app.atomic import UnreadableFileError, read_regular
from sessions_app.codec import decode, decode_head
from sessions_app.errors import SessionCorrupt
from sessions_app.repository import Listing, Unreadable
from sessions_app.session import SessionMetadata

FILE_NAME = re.compile(r"[0-9a-f]{10}\.json", re.ASCII)
HEAD_SIZE = 8 * 1024
TAIL_SIZE = 16
CLOCK_TICK_NS = 2_000_000_000

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Found = SessionMetadata | Unreadable


class CachedListing:
    """What the session files of a directory say of themselves.

    A file is read again when its inode, size or times change, and no more of it than its head where
    that suffices. Safe to use from several threads.
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
        self._stamps: dict[str, int | None] = {}
        self._found: dict[str, Found] = {}
        self._listing: Listing | None = None

    def list(self) -> Listing:
        """Return the readable sessions, most recently updated first, and the files that are not."""
        with self._lock:
            self._refresh()
            if self._listing is None:
                self._listing = _arrange(self._found.values())
            return self._listing

    def _refresh(self) -> None:
        """Bring the cache up to date, and drop the arranged list if anything changed."""
        now = self._clock_ns()
        try:
            unchanged, changed = self._compare()
        except FileNotFoundError:
            unchanged, changed = 0, {}
        if not changed and unchanged == len(self._found):
            return
        self._listing = None
        if unchanged + len(changed.keys() & self._found.keys()) < len(self._found):
            self._forget_removed()
        for name, status in changed.items():
            try:
                self._found[name] = self._read(name, status)
            except FileNotFoundError:
                self._found.pop(name, None)
                self._stamps.pop(name, None)
                continue
            # Within one tick of the clock a second change would leave the same stamp.
            settled = now - max(status.st_mtime_ns, status.st_ctime_ns) > CLOCK_TICK_NS
            self._stamps[name] = _stamp(status) if settled else None

    def _compare(self) -> tuple[int, dict[str, os.stat_result]]:
        """Return how many files are unchanged, and those that are new or changed.

        This loop is all that a warm listing costs, once for every file: hence one integer to
        compare with, and the stamp spelled out.
        """
        stamp_of = self._stamps.get
        unchanged = 0
        changed = {}
        # Names relative to an open directory are looked up faster than whole paths.
        with _opened(self._directory) as directory, os.scandir(directory) as entries:
            for entry in entries:
                name = entry.name
                stamp = stamp_of(name)
                if stamp is None and not FILE_NAME.fullmatch(name):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stamp == hash(
                    (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                ):
                    unchanged += 1
                else:
                    changed[name] = status
        return unchanged, changed

    def _forget_removed(self) -> None:
        try:
            present = set(os.listdir(self._directory))  # noqa: PTH208 - names, not paths
        except FileNotFoundError:
            present = set()
        for name in self._found.keys() - present:
            del self._found[name], self._stamps[name]

    def _read(self, name: str, status: os.stat_result) -> Found:
        path = self._directory / name
        session_id = name.removesuffix(".json")
        if stat.S_ISREG(status.st_mode) and status.st_size <= self._size_limit:
            metadata = _read_head(path, session_id)
            if metadata is not None:
                return metadata
        try:
            return decode(read_regular(path, limit=self._size_limit), session_id).metadata
        except (UnreadableFileError, SessionCorrupt) as error:
            return Unreadable(file=name, reason=error.reason)


def _stamp(status: os.stat_result) -> int:
    return hash((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_head(path: Path, session_id: str) -> SessionMetadata | None:
    """Return the metadata from the file's beginning, if its end looks whole too."""
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return None  # reading it whole says why
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        head = os.pread(descriptor, HEAD_SIZE, 0)
        tail = os.pread(descriptor, TAIL_SIZE, max(0, status.st_size - TAIL_SIZE))
    finally:
        os.close(descriptor)
    # Inside a file that is indented, as ours are, no line consists of a closing brace alone.
    return decode_head(head, session_id) if tail.rstrip().endswith(b"\n}") else None


def _arrange(files: Iterable[Found]) -> Listing:
    found = list(files)
    sessions = [item for item in found if isinstance(item, SessionMetadata)]
    unreadable = [item for item in found if isinstance(item, Unreadable)]
    # The id decides between equal times, so that pages never overlap.
    sessions.sort(key=lambda metadata: (metadata.updated_at, metadata.session_id), reverse=True)
    unreadable.sort(key=lambda item: item.file)
    return Listing(sessions=tuple(sessions), unreadable=tuple(unreadable))
