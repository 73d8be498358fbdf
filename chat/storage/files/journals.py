"""Stores journals as files ``{root}/{session_id}/{turn_id}.jsonl``, appended with single writes.

Anything else in the directory (other names, links, pipes, directories) is left alone. Invalid
lines, as after a crash of the machine, are skipped.

A writer holds a ``flock`` on its file. The system drops it with the process, so an abandoned
journal is distinguished from one that is being written.

The first line is a header with the format version and a hash of the sessions directory, because
servers that share a data directory need not share their sessions. Journals of older servers have no
header and belong to the server that has their session (docs/decisions/0026).
"""

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from chat.storage.files import unreadable as aside
from chat.storage.files.journal_file import (
    VERSION,
    FileJournalWriter,
    Header,
    TakenOverJournal,
    cut_torn_line,
    header_of,
    is_header,
    mark_of,
    opened,
    remove_unless_locked,
)
from chat.storage.files.unreadable import copy_aside, move_aside, set_lines_aside
from chat.storage.files.watcher import PathWatcher
from chat.storage.journal import END_LINE, PASSAGE_BYTES, Entry, JournalSlice, JournalWriter
from sessions_app.decoding import decoder_of
from sessions_app.ids_and_clock import is_session_id
from sessions_app.store.atomic import make_private_directory, open_regular, raise_if_unwritable
from sessions_app.store.holder import is_held

logger = logging.getLogger(__name__)

SUFFIX = ".jsonl"
LAST_ENTRY_LENGTH = 4096
_FILE_NAME = re.compile(r"[0-9a-f]{20}\.jsonl", re.ASCII)
_LAST_ENTRY = re.compile(r"\d+".join(map(re.escape, END_LINE)).encode())
_decode = decoder_of(Entry).decode


class FileTurnJournal:
    """Stores journals in a directory, shared by all processes of a machine.

    Args:
        root: The directory.
        sessions_dir: The sessions directory of the journals; journals of other directories are
            left alone. None accepts all journals.
        watcher: Watches journals; created if None.
    """

    def __init__(
        self, root: Path, sessions_dir: Path | None = None, *, watcher: PathWatcher | None = None
    ) -> None:
        self._root = root
        self._prefix = f"{root}{os.sep}"  # joining a Path costs more than opening the file
        self._sessions_dir = sessions_dir
        self._watcher = watcher or PathWatcher()

    @cached_property
    def _sessions(self) -> str:
        return "" if self._sessions_dir is None else mark_of(self._sessions_dir, self._root)

    @cached_property
    def _header(self) -> str:
        return Header(journal=VERSION, sessions=self._sessions).line

    def open(self, session_id: str, turn_id: str, *, owner: str) -> JournalWriter:  # noqa: ARG002
        """Create and lock the journal of a new turn; the lock identifies the owner."""
        path = self._path(session_id, turn_id)
        try:
            while True:
                try:
                    writer = FileJournalWriter(path, header=self._header)
                except FileNotFoundError:  # the first turn, or a sweep removed the empty directory
                    # The writer's `sync` makes both directory entries durable.
                    make_private_directory(self._prefix + session_id, durable=False)
                    continue
                if not writer.is_removed:
                    return writer
                writer.close()
        except OSError as error:
            raise_if_unwritable(error)
            raise

    def turns(self, session_id: str) -> Sequence[str]:
        """Return the session's turns that have a journal, oldest first."""
        return [turn for turn in self._turns(session_id) if self._is_ours(session_id, turn)]

    def read(self, session_id: str, turn_id: str, position: int = 0) -> JournalSlice:
        """Return the next passage of whole entries; positions are offsets in bytes."""
        entries: list[Entry] = []
        try:
            with opened(self._path(session_id, turn_id)) as file:
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
            return JournalSlice([], position)
        return JournalSlice(entries, position)

    def has_ended(self, session_id: str, turn_id: str) -> bool:
        """Return whether the journal's last entry is ``done``."""
        try:
            descriptor, size = open_regular(self._path(session_id, turn_id))
        except FileNotFoundError:
            return False
        try:
            tail = os.pread(descriptor, LAST_ENTRY_LENGTH, max(0, size - LAST_ENTRY_LENGTH))
        finally:
            os.close(descriptor)
        return tail.endswith(b"\n") and bool(_LAST_ENTRY.match(tail.rsplit(b"\n", 2)[-2]))

    def is_being_written(self, session_id: str, turn_id: str) -> bool:
        """Return whether a writer of this or another process has the journal open."""
        return is_held(self._path(session_id, turn_id)) is True

    def was_closed(self, session_id: str, turn_id: str) -> bool:
        """Return whether the journal exists and nothing writes it any more."""
        path = self._path(session_id, turn_id)
        try:  # one that is just made is empty until its writer holds it
            is_begun = os.stat(path).st_size > 0  # noqa: PTH116 - the path is text
        except FileNotFoundError:
            return False
        return is_begun and is_held(path) is False

    def all_turns(self) -> set[str]:
        """Return every turn that has a journal."""
        return {turn_id for _, turn_id in self._all()}

    def unended_sessions(self) -> Sequence[str]:
        """Return the sessions with a journal that has neither an end nor a writer."""
        return sorted(
            {
                session_id
                for session_id, turn_id in self._all()
                if not self.has_ended(session_id, turn_id)
                and self._is_ours(session_id, turn_id)
                and not self.is_being_written(session_id, turn_id)
            }
        )

    def adopt(self, session_id: str, turn_id: str) -> None:
        """Rewrite the header to this server's sessions directory, unless it is being written."""
        path = self._path(session_id, turn_id)
        header = header_of(path)
        if header is None or not header.is_known or header.sessions == self._sessions:
            return
        if len(header.sessions) == len(self._sessions) and not self.is_being_written(
            session_id, turn_id
        ):
            with open(path, "r+b") as file:  # noqa: PTH123 - the path is text
                file.write(self._header.encode("ascii"))

    def take_over(self, session_id: str, turn_id: str) -> JournalWriter:
        """Continue a dead writer's journal; the caller holds the session's lock."""
        return TakenOverJournal(self._path(session_id, turn_id))

    def reopen(self, session_id: str, turn_id: str, *, owner: str) -> JournalWriter:  # noqa: ARG002
        """Lock a dead writer's journal and go on with it; the lock identifies the owner."""
        path = self._path(session_id, turn_id)
        writer = FileJournalWriter(path, alone=True)
        if writer.is_removed:
            writer.close()
            raise FileNotFoundError(path)
        cut_torn_line(path)
        return writer

    def set_aside(self, session_id: str, turn_id: str, is_sound: Callable[[Entry], bool]) -> bool:
        """Move unreadable lines to a ``.broken`` file; return whether there were any."""
        path = Path(self._path(session_id, turn_id))
        with suppress(FileNotFoundError):
            return set_lines_aside(path, self._header, partial(_is_broken, is_sound))
        return False

    def copy_aside(self, session_id: str, turn_id: str) -> None:
        """Copy a journal to a ``.broken`` file."""
        copy_aside(Path(self._path(session_id, turn_id)))

    def move_aside(self, session_id: str, turn_id: str) -> None:
        """Move a whole journal to a ``.broken`` file."""
        move_aside(Path(self._path(session_id, turn_id)))

    def broken(self) -> Sequence[str]:
        """Return the paths of all ``.broken`` files."""
        return sorted(str(path) for path in self._root.glob(f"*/*{aside.SUFFIX}"))

    def discard(self, session_id: str, turn_id: str) -> None:
        """Delete one turn's journal, and the session's directory with its last one."""
        path = self._path(session_id, turn_id)
        while not remove_unless_locked(path):
            if self.is_being_written(session_id, turn_id):
                return
        with suppress(OSError):  # not empty: there are journals of other turns
            (self._root / session_id).rmdir()

    def discard_session(self, session_id: str) -> None:
        """Delete a session's journals except those being written, and what was set aside."""
        if not is_session_id(session_id):
            return
        for path in (self._root / session_id).glob(f"*{aside.SUFFIX}"):
            header = header_of(str(path))
            if header is None or self._is_of_ours(header):
                path.unlink(missing_ok=True)
        for turn_id in self.turns(session_id):
            self.discard(session_id, turn_id)

    def sweep(self, older_than_seconds: float) -> int:
        """Delete journals that ended longer ago than that; return how many."""
        swept = 0
        newest = time.time() - older_than_seconds
        for session_id, turn_id in self._all():
            path = self._path(session_id, turn_id)
            try:
                if Path(path).stat().st_mtime <= newest and self._is_over(session_id, turn_id):
                    self.discard(session_id, turn_id)
                    swept += 1
            except FileNotFoundError:
                pass  # another process sweeps too
            except OSError:  # one unreadable journal must not stop the sweep
                logger.exception("a journal could not be swept", extra={"turn_id": turn_id})
        return swept

    def watch(
        self, session_id: str, turn_id: str, changed: Callable[[], object]
    ) -> Callable[[], None]:
        """Call ``changed``, in another thread, now and after changes; return a stop function."""
        return self._watcher.watch(Path(self._path(session_id, turn_id)), changed)

    def _all(self) -> Iterator[tuple[str, str]]:
        """Yield the session and the turn of every journal."""
        with suppress(FileNotFoundError):
            for directory in self._root.iterdir():
                for turn_id in self._turns(directory.name):
                    yield directory.name, turn_id

    def _turns(self, session_id: str) -> list[str]:
        """Return the session's turns with a journal of any server, oldest first."""
        if not is_session_id(session_id):
            return []  # it must not be used as a path
        try:
            with os.scandir(self._prefix + session_id) as entries:
                return sorted(
                    [entry.name.removesuffix(SUFFIX) for entry in entries if _is_journal(entry)]
                )
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _is_ours(self, session_id: str, turn_id: str) -> bool:
        """Return whether the journal belongs to this server's sessions and can be read.

        A journal without a header counts: an older server wrote it, or it is just being created.
        """
        header = header_of(self._path(session_id, turn_id))
        return header is None or self._is_of_ours(header)

    def _is_of_ours(self, header: Header) -> bool:
        return header.is_known and (
            not (self._sessions and header.sessions) or header.sessions == self._sessions
        )

    def _is_over(self, session_id: str, turn_id: str) -> bool:
        """Return whether the journal has ended; False for a newer format."""
        header = header_of(self._path(session_id, turn_id))
        return (header is None or header.is_known) and self.has_ended(session_id, turn_id)

    def _path(self, session_id: str, turn_id: str) -> str:
        return f"{self._prefix}{session_id}{os.sep}{turn_id}{SUFFIX}"


def _is_journal(entry: "os.DirEntry[str]") -> bool:
    return bool(_FILE_NAME.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False)


def _whole_lines(file: BinaryIO) -> bytes:
    """Return the next whole lines: up to the size of a passage, or one longer line."""
    content = file.read(PASSAGE_BYTES)
    end = content.rfind(b"\n") + 1
    if end or len(content) < PASSAGE_BYTES:
        return content[:end]
    line = content + file.readline()
    return line if line.endswith(b"\n") else b""


def _is_broken(is_sound: Callable[[Entry], bool], line: bytes) -> bool:
    entry = _entry_of(line)
    return not is_sound(entry) if entry is not None else not is_header(line)


def _entry_of(line: bytes) -> Entry | None:
    try:
        entry = _decode(line)
    except msgspec.MsgspecError:
        return None
    return entry if bytes(entry.data).startswith(b"{") else None
