"""Lists a directory of sessions, reading only files that have changed."""

import logging
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path

from sessions_app.errors import SessionCorrupt
from sessions_app.format.codec import decode, decode_head
from sessions_app.ids_and_clock import SESSION_ID, is_session_id
from sessions_app.session import SessionMetadata
from sessions_app.store.append_log import AppendLog, Position
from sessions_app.store.atomic import StrPath, UnreadableFileError, read_regular
from sessions_app.store.repository import Listing, Unreadable
from sessions_app.store.sorted_sessions import Found, SortedSessions

logger = logging.getLogger(__name__)

FILE_NAME = re.compile(rf"{SESSION_ID}\.json", re.ASCII)
HEAD_SIZE = 8 * 1024
TAIL_SIZE = 16
CLOCK_TICK_NS = 2_000_000_000
MOST_SAVES = 1_000
"""The maximum number of saves to read: with more, checking all files costs less."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SaveLog:
    """Notes which sessions the server's processes saved, for quick listings: docs/decisions/0093.

    The first quick listing makes the log.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self._log = AppendLog(path, most_bytes=256 * 1024)

    def note(self, session_id: str) -> None:
        """Append a saved session, if there is a log."""
        try:
            self._log.append(f"{session_id}\n".encode(), creates=False)
        except FileNotFoundError:
            return
        except OSError:  # a missing log makes readers check all files
            logger.debug("the save log can't be written to, starting a new one", exc_info=True)
            with suppress(OSError):
                self._log.remove()

    def read(self, after: Position | None) -> tuple[Position | None, AbstractSet[str] | None]:
        """Return the end of the log, and the sessions saved since a position; None if unknown."""
        try:
            lines = None if after is None else self._log.read(after, MOST_SAVES)
            if lines is None or len(lines) == MOST_SAVES:
                return self._log.start(), None
        except OSError:  # it can't be created
            return None, None
        names = {line.decode("ascii", errors="replace") for line, _ in lines}
        return (lines[-1][1] if lines else after), names if all(map(is_session_id, names)) else None


class CachedListing:
    """A cache of the metadata of a directory's session files.

    A file is read again when its inode, size or times change, only its head if that suffices.
    Thread-safe.

    A listing costs a ``stat`` of each file, because nothing else shows all changes. A quick listing
    checks only the sessions in the save log (docs/decisions/0126).

    Args:
        directory: The directory.
        size_limit: The maximum size of files to read.
        saves: The log of sessions saved by the server's processes.
        clock_ns: Returns the time, in nanoseconds since 1970.
    """

    def __init__(
        self,
        directory: Path,
        *,
        size_limit: int,
        saves: SaveLog | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._directory = directory
        self._size_limit = size_limit
        self._saves = saves
        self._position: Position | None = None  # all files were checked after it was read
        self._seen: int | None = None  # the directory's stamp before the last check
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._begun = self._ended = 0  # counts checks of all files
        self._directory_stamp: int | None = None
        self._stamps: dict[str, int | None] = {}
        self._sessions = SortedSessions()

    def list(self, *, quickly: bool = False) -> Listing:
        """Return the readable sessions, most recently updated first, and the files that are not.

        Args:
            quickly: Whether to check only sessions in the save log, if it goes on since the last
                listing, and other programs have not changed the directory alone.
        """
        asked = self._begun
        with self._lock:
            # A waiting caller uses a check begun after its call: concurrent calls share checks.
            if self._ended <= asked:
                position, saved = None, None
                seen = _stamp_at(self._directory)
                if quickly and self._saves is not None:
                    position, saved = self._saves.read(self._position)
                if saved is None or (not saved and seen != self._seen):
                    self._begun += 1
                    self._check_all()
                    self._ended = self._begun
                else:
                    self._check(saved)
                self._position, self._seen = position or self._position, seen
            return self._sessions.listing()

    def _check(self, session_ids: Iterable[str]) -> None:
        """Update the cache from the files of some sessions."""
        now = self._clock_ns()
        changed: dict[str, os.stat_result] = {}
        removed: set[str] = set()
        for session_id in session_ids:
            name = f"{session_id}.json"
            try:
                status = os.lstat(f"{self._directory}/{name}")
            except FileNotFoundError:
                removed.add(name)
            else:
                if self._stamps.get(name) != _stamp(status):
                    changed[name] = status
        self._take(changed, removed, now)

    def _check_all(self) -> None:
        """Update the cache from the directory."""
        now = self._clock_ns()
        stamp = None
        try:
            with _opened(self._directory) as directory:
                status = os.fstat(directory)
                changed, removed = self._changed_files(directory)
                if _stamp(status) != self._directory_stamp:
                    for name in self._new_names():
                        with suppress(FileNotFoundError):
                            changed[name] = os.lstat(f"{self._directory}/{name}")
                # By the real clock: the times of files would not reveal a missed name.
                if _is_settled(status, time.time_ns()):
                    stamp = _stamp(status)
        except FileNotFoundError:
            changed, removed = {}, set(self._sessions.found)
        self._take(changed, removed, now)
        # Only now: after a failed update the directory must be checked again.
        self._directory_stamp = stamp

    def _take(
        self, changed: Mapping[str, os.stat_result], removed: AbstractSet[str], now: int
    ) -> None:
        """Read new and changed files, and drop removed ones."""
        removed = set(removed)
        found: dict[str, Found] = {}
        for name, status in changed.items():
            try:
                found[name] = self._read(name, status)
            except FileNotFoundError:
                removed.add(name)
        if not changed and not removed:
            return
        for name in removed:
            self._stamps.pop(name, None)
        for name in found:
            settled = _is_settled(changed[name], now)
            self._stamps[name] = _stamp(changed[name]) if settled else None
        self._sessions.change(found, removed)

    def _changed_files(self, directory: int) -> tuple[dict[str, os.stat_result], set[str]]:
        """Return the known files that have changed, and those that are gone.

        This loop is the whole cost of a warm listing, once for each file: hence the inlined stamp,
        a single integer. Looking names up relative to an open directory is faster than by path.
        """
        changed = {}
        removed = set()
        look = os.stat
        for name, stamp in self._stamps.items():
            try:
                status = look(name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                removed.add(name)
                continue
            if stamp != hash(
                (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            ):
                changed[name] = status
        return changed, removed

    def _new_names(self) -> Iterable[str]:
        names = set(os.listdir(self._directory))  # noqa: PTH208 - faster
        return filter(FILE_NAME.fullmatch, names - self._stamps.keys())

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


def _stamp(status: os.stat_result) -> int:
    return hash((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


def _stamp_at(directory: Path) -> int | None:
    with suppress(FileNotFoundError):
        return _stamp(os.stat(directory))  # noqa: PTH116 - with each search
    return None


def _is_settled(status: os.stat_result, now: int) -> bool:
    """Return whether a further change would alter the stamp, being in a later clock tick."""
    return now - max(status.st_mtime_ns, status.st_ctime_ns) > CLOCK_TICK_NS


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


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
