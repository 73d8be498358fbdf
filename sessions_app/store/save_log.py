"""Logs which sessions the server's processes saved, so that listings need not check all files.

All processes append to the file: a first line with its random name, then the id of each session
after it was written or deleted. A full log is replaced by a new one. A reader that cannot continue
from its last position has to check all files (docs/decisions/0093).
"""

import logging
import os
import re
from contextlib import suppress

import msgspec

from sessions_app.ids_and_clock import SESSION_ID, new_session_id
from sessions_app.store.atomic import sweep_temporary_files, write_atomically

logger = logging.getLogger(__name__)

MOST_BYTES = 256 * 1024
MOST_READ = 1_000
"""The maximum number of saves to read: with more, checking all files costs less."""
STALE_SECONDS = 60.0
"""The age at which a temporary file is one of a dead process: making a log takes milliseconds."""

_LINE_BYTES = 11
_LINES = re.compile(rf"(?:{SESSION_ID}\n)+", re.ASCII)
_OPEN = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Saves(msgspec.Struct, frozen=True):
    """A reading of a log.

    Attributes:
        log: The name of the log.
        end: The offset after its last line.
        time_ns: When that line was written.
        session_ids: The sessions saved or deleted since the last reading; None if unknown.
    """

    log: str
    end: int
    time_ns: int
    session_ids: frozenset[str] | None


class SaveLog:
    """The save log of a directory of sessions. Safe to use from several threads and processes.

    Args:
        path: The file; created with the first save.
        most_bytes: The size at which the log is replaced.
    """

    def __init__(self, path: str, *, most_bytes: int = MOST_BYTES) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._opened: _Opened | None = None

    def note(self, session_id: str) -> None:
        """Append a saved session; at most three system calls, unless a log has to be created."""
        try:
            self._append(f"{session_id}\n".encode())
        except OSError:  # a missing log makes readers check all files
            logger.debug("the save log can't be written to, starting a new one", exc_info=True)
            self._opened = None
            with suppress(OSError):
                os.unlink(self._path)

    def read(self, since: Saves | None) -> Saves | None:
        """Return the saves since an earlier reading; None if there is no valid log."""
        try:
            descriptor = os.open(self._path, _READ)
        except OSError:
            return None
        try:
            return _read(descriptor, since)
        except OSError:  # not a regular file
            return None
        finally:
            os.close(descriptor)

    def sweep(self) -> int:
        """Remove temporary files of processes that died while creating a log; return how many."""
        return sweep_temporary_files(os.path.dirname(self._path), STALE_SECONDS)

    def _append(self, line: bytes) -> None:
        while True:
            opened = self._opened or self._open()
            if os.write(opened.descriptor, line) != len(line):
                raise OSError("no space for a whole line")
            status = os.fstat(opened.descriptor)
            if status.st_nlink and status.st_size <= self._most_bytes:
                self._opened = opened
                return
            self._opened = None
            if status.st_nlink:
                os.unlink(self._path)
                return

    def _open(self) -> "_Opened":
        """Open the log; create one if there is no valid log."""
        while True:
            with suppress(FileNotFoundError):
                opened = _Opened(self._path)
                name = os.pread(opened.descriptor, _LINE_BYTES, 0)
                if _LINES.fullmatch(name.decode("ascii", errors="replace")):
                    return opened
                os.unlink(self._path)  # damaged by a power cut, for example
            with suppress(FileExistsError):  # another process was faster
                header = f"{new_session_id()}\n".encode()
                write_atomically(self._path, header, exclusive=True, durable=False)


def _read(descriptor: int, since: Saves | None) -> Saves:
    status = os.fstat(descriptor)
    end = status.st_size - status.st_size % _LINE_BYTES
    name = os.pread(descriptor, _LINE_BYTES, 0).decode("ascii", errors="replace")
    session_ids = None
    if since is not None and since.log == name:
        session_ids = _session_ids(descriptor, since.end, end)
    return Saves(name, end, status.st_mtime_ns, session_ids)


def _session_ids(descriptor: int, start: int, end: int) -> frozenset[str] | None:
    """Return the ids between two offsets; None if there are too many or invalid lines."""
    size = end - start
    if size == 0:
        return frozenset()
    if not 0 < size <= MOST_READ * _LINE_BYTES:
        return None
    text = os.pread(descriptor, size, start).decode("ascii", errors="replace")
    return frozenset(text.split()) if len(text) == size and _LINES.fullmatch(text) else None


class _Opened:
    """An open log, closed when it is garbage-collected, so that no writer uses a closed file."""

    __slots__ = ("descriptor",)

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, _OPEN)

    def __del__(self) -> None:
        with suppress(AttributeError):  # it could not be opened
            os.close(self.descriptor)
