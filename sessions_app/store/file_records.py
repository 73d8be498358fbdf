"""Stores records as files ``{root}/{name}`` or ``{root}/{group}/{name}``, written atomically.

Anything else in the directories is left alone. Symbolic links are not followed.
"""

import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress

from sessions_app.ids_and_clock import SESSION_ID, is_session_id
from sessions_app.store.atomic import (
    StrPath,
    UnreadableFileError,
    read_regular,
    sync_directory,
    typed_errors,
    write_atomically,
)
from sessions_app.store.locks import locked_directory
from sessions_app.store.records import RECORD_LIMIT, Records

_SESSION = re.compile(SESSION_ID, re.ASCII)
LOCK_SECONDS = 10.0
CLOCK_TICK_NS = 2_000_000_000
"""The resolution of the coarsest file system clock: two changes of a directory within it may have
the same timestamp."""


class FileRecords:
    """Stores records in a directory; implements ``SharedRecords``.

    Args:
        root: The directory; created when needed, with mode 0700.
        names: A regular expression for names, with their group.
        limit: The largest record that is read, in bytes.
        durable: Whether a change must survive a power cut when a method returns.
        clock_ns: Returns the time, in nanoseconds since 1970.
    """

    def __init__(
        self,
        root: StrPath,
        *,
        names: str = "[^/]+",
        limit: int = RECORD_LIMIT,
        durable: bool = True,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._clock_ns = clock_ns
        self._durable = durable
        self._limit = limit
        self._root = os.fspath(root)
        self._prefix = f"{self._root}{os.sep}"  # a string, as Path is slower
        self._is_ours = re.compile(names, re.ASCII).fullmatch

    def names(self, group: str = "") -> list[str]:
        """Return the names in a group in order, or those without a group."""
        if group and not is_session_id(group):
            return []  # it must not be used as a path
        prefix = f"{group}/" if group else ""
        try:
            found = os.listdir(self._prefix + prefix)
        except (FileNotFoundError, NotADirectoryError):  # the usual case: it never had records
            return []
        return sorted(name for each in found if self._is_ours(name := prefix + each))

    def changed_at(self) -> dict[str, float]:
        """Return each name with the time of its last put."""
        found: dict[str, float] = {}
        for group in ("", *self._groups()):
            for name in self.names(group):
                with suppress(FileNotFoundError):  # removed meanwhile
                    found[name] = os.lstat(self._prefix + name).st_mtime
        return found

    def stamps(self) -> dict[str, Hashable]:
        """Return a stamp for each group with records; it differs after each put."""
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

    def read(self, name: str) -> bytes | None:
        """Return a record, or None if it does not exist; raises ``UnreadableFileError``."""
        if not self._is_ours(name):
            return None  # it must not be used as a path
        try:
            return read_regular(self._prefix + name, limit=self._limit)
        except FileNotFoundError:
            return None

    def read_all(self, matches: Callable[[str], bool]) -> dict[str, bytes | UnreadableFileError]:
        """Return the records without a group whose name matches."""
        found: dict[str, bytes | UnreadableFileError] = {}
        for name in filter(matches, self.names()):
            try:
                data = self.read(name)
            except UnreadableFileError as error:
                found[name] = error
                continue
            if data is not None:
                found[name] = data
        return found

    def put(self, name: str, data: bytes, *, exists: bool | None = None) -> bool:
        """Store a record, depending on whether it exists; return whether it was stored."""
        path = self._prefix + name
        if exists and not _is_regular(path):
            return False
        exclusive = exists is False
        try:
            try:
                write_atomically(path, data, exclusive=exclusive, durable=self._durable)
            except FileNotFoundError:  # the empty directory was removed meanwhile
                write_atomically(path, data, exclusive=exclusive, durable=self._durable)
        except FileExistsError:
            return False
        return True

    def swap(self, name: str, expected: bytes, data: bytes | None) -> bool:
        """Replace or delete a record that still is ``expected``; return whether it was."""
        if self.read(name) != expected:
            return False
        with typed_errors(), locked_directory(self._root, timeout_seconds=LOCK_SECONDS) as is_ours:
            if not is_ours:
                raise TimeoutError(f"{self._root} was not free in time")
            if self.read(name) != expected:
                return False
            return self.delete(name) if data is None else self.put(name, data)

    def delete(self, name: str) -> bool:
        """Delete a record, and its group if it was the last; return whether it existed."""
        path = self._prefix + name
        if not (self._is_ours(name) and _is_regular(path)):
            return False
        with typed_errors():
            try:
                os.unlink(path)
            except FileNotFoundError:
                return False
            if self._durable:
                sync_directory(os.path.dirname(path))
        if "/" in name:
            with suppress(OSError):  # not empty
                os.rmdir(os.path.dirname(path))
        return True

    def discard(self, group: str) -> None:
        """Delete all records of a group."""
        if is_session_id(group):
            shutil.rmtree(self._prefix + group, ignore_errors=True)

    def _groups(self) -> Iterator[str]:
        try:
            return filter(_SESSION.fullmatch, os.listdir(self._root))
        except (FileNotFoundError, NotADirectoryError):
            return iter(())


def records_in(place: StrPath | Records, *, limit: int) -> Records:
    """Return the records of a directory; return other records unchanged."""
    return FileRecords(place, limit=limit) if isinstance(place, str | os.PathLike) else place


def _is_regular(path: str) -> bool:
    """Return whether there is a file; raises ``UnreadableFileError`` if it is something else."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not stat.S_ISREG(mode):
        raise UnreadableFileError(path, "not a regular file")
    return True
