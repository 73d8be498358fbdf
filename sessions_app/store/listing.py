"""Lists a directory of sessions, reading only files that have changed."""

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
from sessions_app.ids_and_clock import SESSION_ID
from sessions_app.session import SessionMetadata
from sessions_app.store.atomic import StrPath, UnreadableFileError, read_regular
from sessions_app.store.repository import Listing, Unreadable
from sessions_app.store.save_log import SaveLog, Saves
from sessions_app.store.sorted_sessions import Found, SortedSessions

FILE_NAME = re.compile(rf"{SESSION_ID}\.json", re.ASCII)
HEAD_SIZE = 8 * 1024
TAIL_SIZE = 16
CLOCK_TICK_NS = 2_000_000_000
SAVING_NS = 500_000_000
"""The longest time between a save's change of the directory and its log entry."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class CachedListing:
    """A cache of the metadata of a directory's session files.

    A file is read again when its inode, size or times change, only its head if that suffices. The
    directory is scanned again when its own times change. Thread-safe.

    A listing still costs a ``stat`` of each file, because nothing else shows in-place edits. A
    quick listing checks only the sessions in the save log, and may miss other programs' changes of
    the last seconds.

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
        self._saves_read: Saves | None = None
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._begun = self._ended = 0  # counts checks of all files
        self._directory_stamp: int | None = None
        self._stamps: dict[str, int | None] = {}
        self._sessions = SortedSessions()

    def list(self, *, quickly: bool = False) -> Listing:
        """Return the readable sessions, most recently updated first, and the files that are not.

        Args:
            quickly: Whether to check only sessions in the save log, if that explains the change of
                the directory.
        """
        asked = self._begun
        with self._lock:
            # A waiting caller uses a check begun after its call: concurrent calls share checks.
            if self._ended <= asked:
                saves = None if self._saves is None else self._saves.read(self._saves_read)
                if not (quickly and self._catch_up(saves)):
                    self._begun += 1
                    self._refresh()
                    self._ended = self._begun
                self._saves_read = saves
            return self._sessions.listing()

    def _catch_up(self, saves: Saves | None) -> bool:
        """Check the saved sessions; return whether nothing else seems to have changed."""
        try:
            with _opened(self._directory) as directory:
                status = os.fstat(directory)
                if saves is None or saves.session_ids is None:
                    return _stamp(status) == self._directory_stamp
                changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
                if (
                    changed_ns > saves.time_ns + SAVING_NS
                    and _stamp(status) != self._directory_stamp
                ):
                    return False
                self._check_saved(directory, saves.session_ids)
        except FileNotFoundError:
            return False
        return True

    def _check_saved(self, directory: int, session_ids: Iterable[str]) -> None:
        now = self._clock_ns()
        changed: dict[str, os.stat_result] = {}
        removed: set[str] = set()
        for session_id in session_ids:
            name = f"{session_id}.json"
            try:
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                if name in self._stamps:
                    removed.add(name)
            else:
                if self._stamps.get(name) != _stamp(status):
                    changed[name] = status
        self._take(changed, removed, now)

    def _refresh(self) -> None:
        """Update the cache from the directory."""
        now = self._clock_ns()
        changed, removed, directory_stamp = self._compare()
        self._take(changed, removed, now)
        # Only now: after a failed update the directory must be checked again.
        self._directory_stamp = directory_stamp

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

    def _compare(self) -> tuple[dict[str, os.stat_result], set[str], int | None]:
        """Return the new or changed files, the removed names, and the directory's stamp.

        The stamp is None if a further change might not alter it, according to the real clock: the
        times of files would not reveal a missed name.
        """
        try:
            # Looking names up relative to an open directory is faster than by full path.
            with _opened(self._directory) as directory:
                status = os.fstat(directory)
                stamp = _stamp(status)
                if stamp == self._directory_stamp:
                    with suppress(FileNotFoundError):
                        return self._check_files(directory), set(), stamp
                changed, removed = self._scan_directory(directory)
                return changed, removed, stamp if _is_settled(status, time.time_ns()) else None
        except FileNotFoundError:
            return {}, set(self._sessions.found), None

    def _check_files(self, directory: int) -> dict[str, os.stat_result]:
        """Return the changed files, when no names were added or removed.

        This loop is the whole cost of a warm listing, once for each file: hence the inlined stamp,
        a single integer.
        """
        changed = {}
        look = os.stat
        for name, stamp in self._stamps.items():
            status = look(name, dir_fd=directory, follow_symlinks=False)
            if stamp != hash(
                (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            ):
                changed[name] = status
        return changed

    def _scan_directory(self, directory: int) -> tuple[dict[str, os.stat_result], set[str]]:
        """Return the new or changed files, and the removed names."""
        stamp_of = self._stamps.get
        unchanged = 0
        changed = {}
        with os.scandir(directory) as entries:
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
        if unchanged + len(changed.keys() & self._sessions.found.keys()) == len(
            self._sessions.found
        ):
            return changed, set()
        present = set(os.listdir(directory))
        return changed, self._sessions.found.keys() - present

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
