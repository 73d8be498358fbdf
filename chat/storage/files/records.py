"""Keeps records as files ``{root}/{session_id}/{name}.{kind}``, each whole and on disk.

Whatever else lies there is left alone.
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

RECORD_LIMIT = 64 << 20  # a model's arguments may be as long as a line of its answer
_SESSION = re.compile(SESSION_ID, re.ASCII)
CLOCK_TICK_NS = 2_000_000_000
"""Within a tick of a file system's clock, a directory that changed twice may look as if it had
changed once."""


class FileRecords:
    """Keeps the records of one directory; implements ``StampedRecords``.

    Args:
        root: The directory; made when it is needed, with mode 0700.
        names: The pattern of names.
        kinds: The kinds, in the order in which a name's files are removed: a process that dies
            half-way leaves the last ones.
        durable: Whether a record has to survive a power cut when ``put`` returns.
        clock_ns: What the time is.
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
        self._prefix = f"{root}{os.sep}"  # as text: every turn looks into its session's folder
        self._kinds = kinds
        self._name = re.compile(names, re.ASCII)
        self._file = re.compile(rf"({names})\.({'|'.join(kinds)})", re.ASCII)
        self._temporary = re.compile(rf"\.{names}\.\w+\.[0-9a-f]{{16}}\.tmp", re.ASCII)

    def sessions(self, unchanged_since: float) -> list[str]:
        """Return the sessions that have records, and got none since then."""
        found: list[str] = []
        with suppress(FileNotFoundError), os.scandir(self._root) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if is_session_id(entry.name) and entry.stat().st_mtime <= unchanged_since:
                        found.append(entry.name)
        return found

    def stamps(self) -> dict[str, Hashable]:
        """Return the sessions that have records, each with a stamp that differs after each put."""
        found: dict[str, Hashable] = {}
        newest = self._clock_ns() - CLOCK_TICK_NS
        try:
            # Names relative to an open directory are looked up faster than whole paths.
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return found
        try:
            for name in filter(_SESSION.fullmatch, os.listdir(root)):  # noqa: PTH208 - of a descriptor
                try:
                    status = os.stat(name, dir_fd=root, follow_symlinks=False)
                except FileNotFoundError:  # swept just now
                    continue
                written, changed = status.st_mtime_ns, status.st_ctime_ns
                is_settled = written < newest and changed < newest
                found[name] = (status.st_ino, written, changed) if is_settled else object()
        finally:
            os.close(root)
        return found

    def kinds(self, session_id: str) -> dict[str, set[str]]:
        """Return the session's names, each with the kinds of records that it has."""
        found: dict[str, set[str]] = {}
        if not is_session_id(session_id):
            return found
        try:
            with os.scandir(self._prefix + session_id) as entries:
                files = [entry.name for entry in entries]
        except (FileNotFoundError, NotADirectoryError):  # the usual case: there never were any
            return found
        for file in files:
            if ours := self._file.fullmatch(file):
                found.setdefault(ours[1], set()).add(ours[2])
        return found

    def read(self, session_id: str, name: str, kind: str) -> bytes | None:
        """Return a record, empty where it can't be read; None where there is none."""
        if not (is_session_id(session_id) and self._name.fullmatch(name)):
            return None  # it must not become a path
        try:
            return read_regular(self._path(session_id, name, kind), limit=RECORD_LIMIT)
        except FileNotFoundError:
            return None
        except UnreadableFileError:
            return b""

    def put(
        self, session_id: str, name: str, kind: str, data: bytes, *, exclusive: bool = False
    ) -> bool:
        """Keep a record; False if ``exclusive`` and something stands there already."""
        path = self._path(session_id, name, kind)
        try:
            try:
                write_atomically(path, data, exclusive=exclusive, durable=self._durable)
            except FileNotFoundError:  # a sweep removed the directory just now: it was empty
                write_atomically(path, data, exclusive=exclusive, durable=self._durable)
        except FileExistsError:
            return False
        return True

    def discard(self, session_id: str) -> None:
        """Forget everything about a session."""
        if is_session_id(session_id):
            shutil.rmtree(self._root / session_id, ignore_errors=True)

    def sweep(self, unchanged_since: float, is_foreign: Callable[[bytes], bool]) -> int:
        """Forget names of which no file has changed since then; return how many."""
        swept = 0
        with suppress(FileNotFoundError):
            for directory in self._root.iterdir():
                if not is_session_id(directory.name):
                    continue
                for name, kinds in self.kinds(directory.name).items():
                    paths = [directory / f"{name}.{kind}" for kind in self._kinds if kind in kinds]
                    swept += _remove_if_old(paths, unchanged_since, is_foreign)
                self._remove_torn_writes(directory, unchanged_since)
                with suppress(OSError):  # there is more, or it is no directory
                    directory.rmdir()
        return swept

    def _remove_torn_writes(self, directory: Path, newest: float) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in directory.iterdir():
                with suppress(FileNotFoundError):  # written to its end just now
                    if self._temporary.fullmatch(path.name) and path.lstat().st_mtime <= newest:
                        path.unlink()

    def _path(self, session_id: str, name: str, kind: str) -> str:
        return f"{self._prefix}{session_id}{os.sep}{name}.{kind}"


def _remove_if_old(
    paths: Sequence[Path], newest: float, is_foreign: Callable[[bytes], bool]
) -> bool:
    """Remove a name's files unless one is newer, or foreign."""
    try:
        if max(path.lstat().st_mtime for path in paths) > newest:
            return False
        with suppress(UnreadableFileError):
            if any(is_foreign(read_regular(path, limit=RECORD_LIMIT)) for path in paths):
                return False
    except FileNotFoundError:
        return False  # another process removes them just now
    for path in paths:
        with suppress(IsADirectoryError, PermissionError):  # by hand; as foreign as other names
            path.unlink(missing_ok=True)
    return True
