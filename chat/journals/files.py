"""Journals as files: ``{root}/{session_id}/{turn_id}.jsonl``, appended with single writes."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from chat.journal import Entry, JournalWriter

SUFFIX = ".jsonl"
_decode = msgspec.json.Decoder(Entry).decode


class FileJournalWriter:
    """Appends to one file. ``O_APPEND`` and one ``write`` a call keep lines whole."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, 0o600)

    def append(self, lines: str) -> None:
        """Write whole lines. Inline: a page-cache write costs less than a thread hop."""
        data = lines.encode("ascii")
        written = os.write(self._fd, data)
        while written < len(data):  # a full disk raises on the second attempt
            written += os.write(self._fd, data[written:])

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FileTurnJournal:
    """The journals under one directory, shared by all worker processes of a machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, session_id: str, turn_id: str) -> JournalWriter:
        """Begin the journal of a new turn."""
        directory = self._root / session_id
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileJournalWriter(directory / f"{turn_id}{SUFFIX}")

    def turns(self, session_id: str) -> Sequence[str]:
        """Return the session's turns that have a journal, oldest first."""
        try:
            with os.scandir(self._root / session_id) as entries:
                names = [entry.name for entry in entries if entry.name.endswith(SUFFIX)]
        except FileNotFoundError:
            return []
        return sorted(name.removesuffix(SUFFIX) for name in names)

    def read(self, session_id: str, turn_id: str, after: int = 0) -> Sequence[Entry]:
        """Return the whole entries whose number is above ``after``."""
        try:
            content = (self._root / session_id / f"{turn_id}{SUFFIX}").read_bytes()
        except FileNotFoundError:
            return []
        lines = content.split(b"\n")[:-1]
        return [entry for entry in map(_decode, lines) if entry.n > after]

    def discard(self, session_id: str, turn_id: str) -> None:
        """Forget one turn's journal, and the session's directory with its last one."""
        directory = self._root / session_id
        (directory / f"{turn_id}{SUFFIX}").unlink(missing_ok=True)
        try:
            directory.rmdir()
        except OSError:
            return  # other turns' journals are still there

    def discard_session(self, session_id: str) -> None:
        """Forget all journals of a session."""
        shutil.rmtree(self._root / session_id, ignore_errors=True)
