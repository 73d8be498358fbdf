"""Stores the change log in a file that every process appends to (docs/decisions/0073).

::

    {directory}/log        a header line with the names of this log and the previous one, then
                           one line per change
    {directory}/log.1      the previous log
    {directory}/listened   an empty file; its mtime is when ``open`` was last called

The log exists only while there are listeners; without it, a change costs one failed open. The id of
a change is the name of its log and the offset after its line.
"""

import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from chat.storage.change_log import Change, ChangeKind
from chat.storage.files.watcher import PathWatcher
from sessions_app.ids_and_clock import new_file_tag
from sessions_app.store.atomic import make_private_directory, raise_if_unwritable, write_atomically
from sessions_app.store.locks import FileLocks

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 20
"""The maximum size of a log, some 15,000 changes."""
LISTENED_SECONDS = 600.0
LOCK_SECONDS = 10.0

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_HEADER = re.compile(rb"([0-9a-f]{16}) ([0-9a-f]{16}|-{16})\n")
_HEADER_BYTES = 34
_LINE = re.compile(rb"([a-z_]{1,40}) ([0-9a-f]{10}) ([0-9a-zA-Z_-]{0,100})")
_LINE_BYTES = 160


class FileChangeLog:
    """Stores changes in a directory; implements ``ChangeLog``.

    Args:
        directory: The directory of the files; created by ``open``.
        watcher: Watches the log for changes by other processes, while there are listeners.
        most_bytes: The size at which the log is rotated.
    """

    def __init__(
        self, directory: Path, watcher: PathWatcher, *, most_bytes: int = MOST_BYTES
    ) -> None:
        self._directory = str(directory)
        self._path = f"{directory}/log"
        self._earlier = f"{directory}/log.1"
        self._listened = f"{directory}/listened"
        self._watcher = watcher
        self._most_bytes = most_bytes
        self._locks = FileLocks(f"{directory}/.locks")
        self._lock = threading.Lock()
        self._followers: set[_Follower] = set()

    def note(self, kind: ChangeKind, session_id: str, turn_id: str = "") -> None:
        """Append a change after it was made; almost free without listeners."""
        written: _Extent | None = None
        try:
            written = self._append(f"{kind} {session_id} {turn_id}\n".encode())
        except FileNotFoundError:  # the usual case: no listeners
            return
        except OSError as error:
            logger.warning("the change log can't be written to, starting a new one: %s", error)
            with suppress(OSError):
                Path(self._path).unlink()
        with self._lock:
            followers = tuple(self._followers)
        for follower in followers:
            with suppress(RuntimeError):  # its event loop was closed just now
                follower.notify(written)

    def open(self) -> str:
        """Keep the log for the next ten minutes; return the id of the newest change.

        Raises:
            StorageError: The directory can't be written to.
        """
        try:
            make_private_directory(self._directory, durable=False)
            with self._locks.held("log", timeout_seconds=LOCK_SECONDS):
                write_atomically(self._listened, b"", durable=False)
                self._keep_bounded()
            with _opened(self._path) as log:
                name, _ = _header(log)
                return f"{name}-{_end(log)}"
        except OSError as error:
            raise_if_unwritable(error)
            raise

    def follow(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed``, in any thread, when there may be changes; return a stop function."""
        follower = _Follower(changed)
        with self._lock:
            self._followers.add(follower)
        unwatch = self._watcher.watch(
            Path(self._path), lambda: follower.notify(_extent_at(self._path))
        )

        def stop() -> None:
            unwatch()
            with self._lock:
                self._followers.discard(follower)

        return stop

    def read(self, after: str, most: int) -> Sequence[Change] | None:
        """Return up to ``most`` changes after the one with this id; None if it is unknown."""
        wanted, _, digits = after.partition("-")
        try:
            with _opened(self._path) as log:
                name, before = _header(log)
                if wanted == name:
                    return _changes(log, name, int(digits), most)
                if wanted != before:
                    return None
                with _opened(self._earlier) as earlier:
                    if _header(earlier)[0] != wanted:
                        return None
                    found = _changes(earlier, wanted, int(digits), most)
                if found is None or len(found) == most:
                    return found
                more = _changes(log, name, _HEADER_BYTES, most - len(found))
                return None if more is None else [*found, *more]
        except (FileNotFoundError, _NoLogError):
            return None

    def sweep(self) -> None:
        """Delete the log if there have been no listeners for ten minutes."""
        with suppress(FileNotFoundError):
            if self._is_listened_to():
                return
            with self._locks.held("log", timeout_seconds=LOCK_SECONDS):
                if self._is_listened_to():
                    return
                for path in (self._path, self._earlier, self._listened):
                    Path(path).unlink(missing_ok=True)

    def _is_listened_to(self) -> bool:
        return Path(self._listened).stat().st_mtime > time.time() - LISTENED_SECONDS

    def _append(self, line: bytes) -> "_Extent":
        """Append a line to the log, and again to the new one if it was rotated meanwhile.

        Uses no lock, so that a process suspended here cannot block turns of others. Readers may
        have finished with the rotated log, hence the second append.
        """
        while True:
            descriptor = os.open(self._path, _APPEND)
            try:
                if os.write(descriptor, line) != len(line):
                    raise OSError("no space for a whole line")
                written_to = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            if os.path.samestat(os.stat(self._path), written_to):  # noqa: PTH116 - with each change
                return _extent(written_to)

    def _keep_bounded(self) -> None:
        """Start a new log if there is none, it is full, or the machine has been rebooted.

        After a power cut the end of a log may be lost, so its offsets could be reused.
        """
        before = "-" * 16
        try:
            with _opened(self._path) as log:
                name, _ = _header(log)
                size = os.fstat(log).st_size
            if name.startswith(_boot()) and size <= self._most_bytes:
                return
            with suppress(OSError):  # then readers of the previous log have to start over
                aside = Path(f"{self._directory}/.log.{new_file_tag()}.tmp")
                aside.hardlink_to(self._path)
                aside.replace(self._earlier)
                before = name
        except (FileNotFoundError, _NoLogError):
            pass
        name = f"{_boot()}{secrets.token_hex(4)}"
        write_atomically(self._path, f"{name} {before}\n".encode(), durable=False)


_Extent = tuple[int, int]
"""The inode and size of a log, which differ after every append."""


class _Follower:
    """A callback for appends, called once for each.

    Appends of this process are notified immediately; the watcher reports them again later.
    """

    def __init__(self, changed: Callable[[], object]) -> None:
        self._changed = changed
        self._notified: _Extent | None = None

    def notify(self, extent: _Extent | None) -> None:
        """Call back unless ``extent`` was notified already; None always calls back."""
        if extent is None or extent != self._notified:
            self._notified = extent
            self._changed()


def _extent(status: os.stat_result) -> _Extent:
    return status.st_ino, status.st_size


def _extent_at(path: str) -> _Extent | None:
    try:
        return _extent(os.stat(path))  # noqa: PTH116 - with each change
    except OSError:
        return None


class _NoLogError(Exception):
    """Raised when a file is not a log."""


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, _READ)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _header(log: int) -> tuple[str, str]:
    """Return the names of the log and of the previous one."""
    header = _HEADER.fullmatch(os.pread(log, _HEADER_BYTES, 0))
    if header is None:
        raise _NoLogError
    return header[1].decode(), header[2].decode()


def _end(log: int) -> int:
    """Return the offset after the last whole line."""
    size = os.fstat(log).st_size
    start = max(0, size - _LINE_BYTES)
    return start + os.pread(log, _LINE_BYTES, start).rfind(b"\n") + 1


def _changes(log: int, name: str, start: int, most: int) -> list[Change] | None:
    """Return the changes of a log from an offset on; None if no line begins there."""
    data = os.pread(log, most * _LINE_BYTES, start - 1) if start >= _HEADER_BYTES else b""
    if not data.startswith(b"\n"):
        return None
    changes: list[Change] = []
    end = start
    for line in data[1 : data.rfind(b"\n") + 1].splitlines()[:most]:
        found = _LINE.fullmatch(line)
        if found is None:
            return None
        end += len(line) + 1
        kind, session_id, turn_id = (part.decode() for part in found.groups())
        changes.append(
            Change(id=f"{name}-{end}", kind=kind, session_id=session_id, turn_id=turn_id)
        )
    return changes


@cache
def _boot() -> str:
    """Return the first 8 digits of the kernel's boot id, or zeros without one."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii")[:8]
    return "0" * 8
