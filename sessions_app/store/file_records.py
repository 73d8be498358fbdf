"""Stores records as files ``{root}/{session_id}/{name}.{kind}``, written atomically.

Anything else in the directories is left alone.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from pathlib import Path

from sessions_app.ids_and_clock import SESSION_ID, is_session_id
from sessions_app.store.atomic import UnreadableFileError, read_regular, write_atomically

RECORD_LIMIT = 64 << 20  # tool arguments may be as long as the longest line of a model's response
_SESSION = re.compile(SESSION_ID, re.ASCII)
CLOCK_TICK_NS = 2_000_000_000
"""The resolution of the coarsest file system clock: two changes of a directory within it may have
the same timestamp."""


class FileRecords:
    """Stores records in a directory; implements ``StampedRecords``.

    Args:
        root: The directory; created when needed, with mode 0700.
        names: A regular expression for names.
        kinds: The kinds, in the order in which a name's files are removed; a crash in between
            leaves the last ones.
        durable: Whether a record must survive a power cut when ``put`` returns.
        clock_ns: Returns the time, in nanoseconds since 1970.
    """

    def __init__(
        self,
        root: Path,
        *,
        names: str,
        kinds: Sequence[str],
        durable: bool = True,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._clock_ns = clock_ns
        self._durable = durable
        self._root = root
        self._prefix = f"{root}{os.sep}"  # a string, as Path is slower
        self._kinds = kinds
        self._name = re.compile(names, re.ASCII)
        self._file = re.compile(rf"({names})\.({'|'.join(kinds)})", re.ASCII)
        self._temporary = re.compile(rf"\.{names}\.\w+\.[0-9a-f]{{16}}\.tmp", re.ASCII)

    def sessions(self, unchanged_since: float) -> list[str]:
        """Return the sessions with records whose last put was not after that time."""
        found: list[str] = []
        with suppress(FileNotFoundError), os.scandir(self._root) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if is_session_id(entry.name) and entry.stat().st_mtime <= unchanged_since:
                        found.append(entry.name)
        return found

    def stamps(self) -> dict[str, Hashable]:
        """Return a stamp for each session with records; it differs after each put."""
        found: dict[str, Hashable] = {}
        newest = self._clock_ns() - CLOCK_TICK_NS
        try:
            # Looking names up relative to an open directory is faster than by full path.
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return found
        try:
            for name in filter(_SESSION.fullmatch, os.listdir(root)):
                try:
                    status = os.stat(name, dir_fd=root, follow_symlinks=False)
                except FileNotFoundError:  # removed by a concurrent sweep
                    continue
                written, changed = status.st_mtime_ns, status.st_ctime_ns
                is_settled = written < newest and changed < newest
                found[name] = (status.st_ino, written, changed) if is_settled else object()
        finally:
            os.close(root)
        return found

    def kinds(self, session_id: str) -> dict[str, set[str]]:
        """Return the session's record names, each with its kinds."""
        found: dict[str, set[str]] = {}
        if not is_session_id(session_id):
            return found
        try:
            with os.scandir(self._prefix + session_id) as entries:
                files = [entry.name for entry in entries]
        except (FileNotFoundError, NotADirectoryError):  # the usual case: it never had records
            return found
        for file in files:
            if ours := self._file.fullmatch(file):
                found.setdefault(ours[1], set()).add(ours[2])
        return found

    def read(self, session_id: str, name: str, kind: str) -> bytes | None:
        """Return a record: empty if it can't be read, None if it does not exist."""
        if not (is_session_id(session_id) and self._name.fullmatch(name)):
            return None  # it must not be used as a path
        try:
            return read_regular(self._path(session_id, name, kind), limit=RECORD_LIMIT)
        except FileNotFoundError:
            return None
        except UnreadableFileError:
            return b""

    def put(
        self, session_id: str, name: str, kind: str, data: bytes, *, exclusive: bool = False
    ) -> bool:
        """Store a record; return False if ``exclusive`` and the path exists already."""
        path = self._path(session_id, name, kind)
        try:
            try:
                write_atomically(path, data, exclusive=exclusive, durable=self._durable)
            except FileNotFoundError:  # a concurrent sweep removed the empty directory
                write_atomically(path, data, exclusive=exclusive, durable=self._durable)
        except FileExistsError:
            return False
        return True

    def discard(self, session_id: str) -> None:
        """Delete all records of a session."""
        if is_session_id(session_id):
            shutil.rmtree(self._root / session_id, ignore_errors=True)

    def sweep(self, unchanged_since: float, is_foreign: Callable[[bytes], bool]) -> int:
        """Delete the files of names unchanged since that time; return the number of names."""
        swept = 0
        with suppress(FileNotFoundError):
            for directory in self._root.iterdir():
                if not is_session_id(directory.name):
                    continue
                for name, kinds in self.kinds(directory.name).items():
                    paths = [directory / f"{name}.{kind}" for kind in self._kinds if kind in kinds]
                    swept += _remove_if_old(paths, unchanged_since, is_foreign)
                self._remove_torn_writes(directory, unchanged_since)
                with suppress(OSError):  # not empty, or not a directory
                    directory.rmdir()
        return swept

    def _remove_torn_writes(self, directory: Path, newest: float) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in directory.iterdir():
                with suppress(FileNotFoundError):  # the write has just been completed
                    if self._temporary.fullmatch(path.name) and path.lstat().st_mtime <= newest:
                        path.unlink()

    def _path(self, session_id: str, name: str, kind: str) -> str:
        return f"{self._prefix}{session_id}{os.sep}{name}.{kind}"


def _remove_if_old(
    paths: Sequence[Path], newest: float, is_foreign: Callable[[bytes], bool]
) -> bool:
    """Remove a name's files unless one of them is newer or foreign."""
    try:
        if max(path.lstat().st_mtime for path in paths) > newest:
            return False
        with suppress(UnreadableFileError):
            if any(is_foreign(read_regular(path, limit=RECORD_LIMIT)) for path in paths):
                return False
    except FileNotFoundError:
        return False  # another process is removing them
    for path in paths:
        with suppress(IsADirectoryError, PermissionError):  # not ours: made by hand
            path.unlink(missing_ok=True)
    return True
