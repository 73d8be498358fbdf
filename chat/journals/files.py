"""Journals as files: ``{root}/{session_id}/{turn_id}.jsonl``, appended with single writes.

Whatever else lies there (other names, links, pipes, directories) is no journal and left alone. A
line that is no entry, as a crash of the machine may leave one, is passed over.

A writer holds a ``flock`` on its file. The system drops it with the process, however that ends, so
a journal that nobody will go on with is told from one that is being written.
"""

import errno
import fcntl
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from chat.journal import PASSAGE_BYTES, Entry, JournalWriter, Passage
from chat.journals.watcher import PathWatcher
from sessions_app.atomic import PRIVATE_FILE, make_private_directory, raise_if_full

SUFFIX = ".jsonl"
LAST_ENTRY_LENGTH = 4096
_SESSION_ID = re.compile(r"[0-9a-f]{10}", re.ASCII)
_FILE_NAME = re.compile(r"[0-9a-f]{20}\.jsonl", re.ASCII)
_LAST_ENTRY = re.compile(rb'\{"n":\d+,"event":"done",')
_decode = msgspec.json.Decoder(Entry).decode


class FileJournalWriter:
    """Appends to one file. ``O_APPEND`` and one ``write`` a call keep lines whole."""

    def __init__(self, path: str, *, new: bool = False) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        if new:
            flags |= os.O_CREAT | os.O_EXCL
        self._fd = os.open(path, flags, PRIVATE_FILE)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def append(self, lines: str) -> None:
        """Write whole lines. Inline: a page-cache write costs less than a thread hop."""
        data = lines.encode("ascii")
        written = os.write(self._fd, data)
        if written < len(data):
            self._append_rest(data, written)

    def _append_rest(self, data: bytes, written: int) -> None:
        """Write what one call did not take; a full disk raises, and takes back what it took."""
        size = os.fstat(self._fd).st_size - written
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            with suppress(OSError):  # readers leave a torn line out, and who goes on cuts it off
                os.ftruncate(self._fd, size)
            raise

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FileTurnJournal:
    """The journals under one directory, shared by all worker processes of a machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._prefix = f"{root}{os.sep}"  # putting a Path together costs more than opening it

    def open(self, session_id: str, turn_id: str) -> JournalWriter:
        """Begin the journal of a new turn."""
        path = self._path(session_id, turn_id)
        while True:
            try:
                try:
                    return FileJournalWriter(path, new=True)
                except FileNotFoundError:  # its first turn, or a sweep removed the empty directory
                    # No more durable than the journal in it, which is not synced either.
                    make_private_directory(self._root / session_id, durable=False)
            except OSError as error:
                raise_if_full(error)
                raise

    def turns(self, session_id: str) -> Sequence[str]:
        """Return the session's turns that have a journal, oldest first."""
        if not _SESSION_ID.fullmatch(session_id):
            return []  # as everybody else says: it must not become a path
        try:
            with os.scandir(self._prefix + session_id) as entries:
                return sorted(
                    entry.name.removesuffix(SUFFIX) for entry in entries if _is_journal(entry)
                )
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, session_id: str, turn_id: str, position: int = 0) -> Passage:
        """Return the next passage of whole entries; positions are bytes."""
        entries: list[Entry] = []
        try:
            with _opened(self._path(session_id, turn_id)) as file:
                file.seek(position)
                while not entries and (whole := _whole_lines(file)):
                    position += len(whole)
                    entries = [
                        entry
                        for line in whole.split(b"\n")[:-1]
                        if (entry := _entry_of(line)) is not None
                    ]
                    file.seek(position)
        except FileNotFoundError:
            return Passage([], position)
        return Passage(entries, position)

    def has_ended(self, session_id: str, turn_id: str) -> bool:
        """Whether the journal's last entry is ``done``."""
        try:
            descriptor, size = _open(self._path(session_id, turn_id))
        except FileNotFoundError:
            return False
        try:
            tail = os.pread(descriptor, LAST_ENTRY_LENGTH, max(0, size - LAST_ENTRY_LENGTH))
        finally:
            os.close(descriptor)
        return tail.endswith(b"\n") and bool(_LAST_ENTRY.match(tail.rsplit(b"\n", 2)[-2]))

    def is_being_written(self, session_id: str, turn_id: str) -> bool:
        """Whether the journal's writer is open, in this or another process."""
        return self._is_locked(session_id, turn_id) is True

    def was_closed(self, session_id: str, turn_id: str) -> bool:
        """Whether there is a journal and its writer is gone: nothing more comes from the turn."""
        return self._is_locked(session_id, turn_id) is False

    def all_turns(self) -> set[str]:
        """Return every turn that has a journal."""
        return {turn_id for _, turn_id in self._all()}

    def unended_sessions(self) -> Sequence[str]:
        """Return the sessions with a journal that has not ended: its turn runs, or died."""
        return sorted(
            {
                session_id
                for session_id, turn_id in self._all()
                if not self.has_ended(session_id, turn_id)
            }
        )

    def append(self, session_id: str, turn_id: str, lines: str) -> None:
        """Add lines to a journal whose writer died, after cutting off what it left half-written."""
        path = self._path(session_id, turn_id)
        content = Path(path).read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)
        writer = FileJournalWriter(path)
        try:
            writer.append(lines)
        finally:
            writer.close()

    def discard(self, session_id: str, turn_id: str) -> None:
        """Forget one turn's journal, and the session's directory with its last one."""
        path = Path(self._path(session_id, turn_id))
        path.unlink(missing_ok=True)
        with suppress(OSError):  # other turns' journals are still there
            path.parent.rmdir()

    def discard_session(self, session_id: str) -> None:
        """Forget all journals of a session."""
        shutil.rmtree(self._root / session_id, ignore_errors=True)

    def sweep(self, older_than_seconds: float) -> int:
        """Forget journals that ended longer ago than that; return how many."""
        swept = 0
        newest = time.time() - older_than_seconds
        for session_id, turn_id in self._all():
            path = Path(self._path(session_id, turn_id))
            with suppress(FileNotFoundError):  # another worker sweeps too
                if path.stat().st_mtime <= newest and self.has_ended(session_id, turn_id):
                    self.discard(session_id, turn_id)
                    swept += 1
        return swept

    def watch(
        self,
        watcher: PathWatcher,
        session_id: str,
        turn_id: str,
        changed: Callable[[], object],
    ) -> Callable[[], None]:
        """Call ``changed``, in another thread, when the journal grew; return how to stop."""
        return watcher.watch(Path(self._path(session_id, turn_id)), changed)

    def _is_locked(self, session_id: str, turn_id: str) -> bool | None:
        """Return whether a writer holds the journal's lock; None where there is no journal."""
        try:
            with _opened(self._path(session_id, turn_id)) as file:
                fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return None
        except BlockingIOError:
            return True
        return False

    def _all(self) -> Iterator[tuple[str, str]]:
        """Yield the session and the turn of every journal."""
        with suppress(FileNotFoundError):
            for directory in self._root.iterdir():
                for turn_id in self.turns(directory.name):
                    yield directory.name, turn_id

    def _path(self, session_id: str, turn_id: str) -> str:
        return f"{self._prefix}{session_id}{os.sep}{turn_id}{SUFFIX}"


def _is_journal(entry: "os.DirEntry[str]") -> bool:
    return bool(_FILE_NAME.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False)


def _opened(path: str) -> BinaryIO:
    """Open a journal to read it as a file; raises as ``_open``."""
    return os.fdopen(_open(path)[0], "rb")


def _open(path: str) -> tuple[int, int]:
    """Open a journal to read it; never through a link, and never waiting for a pipe's writer.

    Returns:
        The descriptor, and the file's size in bytes.

    Raises:
        FileNotFoundError: There is none.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}:
            raise FileNotFoundError(errno.ENOENT, "no journal", path) from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "no journal", path)
    return descriptor, status.st_size


def _whole_lines(file: BinaryIO) -> bytes:
    """Return the next lines that are whole: as many as a passage holds, or one that is longer."""
    content = file.read(PASSAGE_BYTES)
    end = content.rfind(b"\n") + 1
    if end or len(content) < PASSAGE_BYTES:
        return content[:end]
    line = content + file.readline()
    return line if line.endswith(b"\n") else b""


def _entry_of(line: bytes) -> Entry | None:
    try:
        entry = _decode(line)
    except msgspec.MsgspecError:
        return None
    return entry if bytes(entry.data).startswith(b"{") else None
