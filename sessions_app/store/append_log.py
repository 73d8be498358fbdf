"""Appends lines to files that several processes share, and reads them (docs/decisions/0129).

::

    {path}      the lines; those of a named log follow a header with the names of this file and the
                one before
    {path}.1    the file before, of a bounded log

Each line is one ``write``, so lines of several processes don't mix. A line that a crash or a full
disk cut off is ended by the next writer. Lines are not synced.
"""

import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from typing import NamedTuple
from weakref import finalize

from sessions_app.ids_and_clock import new_file_tag
from sessions_app.store.atomic import (
    PRIVATE_FILE,
    StrPath,
    make_private_directory,
    open_regular,
    write_atomically,
)
from sessions_app.store.holder import held_if_free

LINE_BYTES = 64 * 1024

_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HEADER = re.compile(rb"([0-9a-f]{16}) ([0-9a-f]{16}|-{16})\n")
_HEADER_BYTES = 34
_PIECE = 1 << 18


class Position(NamedTuple):
    """The offset after a line in the log's file of this name."""

    log: str
    offset: int


class OpenLog:
    """A file that is open for appending, until it is closed or collected.

    Args:
        path: The file.
        creates: Whether to create the file if it is missing.
    """

    def __init__(self, path: StrPath, *, creates: bool = True) -> None:
        flags = os.O_RDWR | os.O_APPEND | _SAFE | (os.O_CREAT if creates else 0)
        self._descriptor = os.open(path, flags, PRIVATE_FILE)
        self.close = finalize(self, os.close, self._descriptor)

    @property
    def is_there(self) -> bool:
        """Return whether the file still exists."""
        return os.fstat(self._descriptor).st_nlink > 0

    def append(self, lines: Iterable[bytes]) -> os.stat_result:
        """Append lines with their line breaks; return the state of the file before.

        Raises:
            OSError: Some lines could not be written, or only in part.
        """
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        is_torn = status.st_size and os.pread(self._descriptor, 1, status.st_size - 1) != b"\n"
        for line in lines:
            whole = b"\n" + line if is_torn else line
            is_torn = False
            if os.write(self._descriptor, whole) != len(whole):
                raise OSError("no space for a whole line")
        return status


class AppendLog:
    """A log in a file. Safe to use from several threads and processes; no call waits for another.

    Args:
        path: The file; its directory is created when necessary.
        most_bytes: The size at which a new file is begun, and the one before the last deleted;
            None for a single file without a header.
        line_bytes: The maximum length of a line; readers skip longer ones.
        named: Whether files have a header with their names, which ``start`` and ``read`` need.
        epoch: The first digits of the names of files; a file of another epoch is not continued.
    """

    def __init__(
        self,
        path: StrPath,
        *,
        most_bytes: int | None = None,
        line_bytes: int = LINE_BYTES,
        named: bool = True,
        epoch: str = "",
    ) -> None:
        self._path = os.fspath(path)
        self._earlier = f"{self._path}.1"
        self._most_bytes = most_bytes
        self._line_bytes = line_bytes
        self._named = named
        self._epoch = epoch

    def append(self, *lines: bytes, creates: bool = True) -> None:
        """Append lines with their line breaks.

        A reader may have finished with a file that was replaced meanwhile, so they are appended to
        the next one, too.

        Args:
            lines: The lines.
            creates: Whether to create the log if it is missing.

        Raises:
            FileNotFoundError: The log is missing, and ``creates`` is false.
            OSError: Some lines could not be written, or only in part.
        """
        size = sum(map(len, lines))
        while True:
            with closing(self.open(creates=creates)) as log:
                before = log.append(lines)
            with suppress(FileNotFoundError):
                if self._most_bytes is None or os.path.samestat(os.stat(self._path), before):
                    break
        if self._most_bytes is not None and before.st_size + size > self._most_bytes:
            self._begin_next()

    def open(self, *, creates: bool = True) -> OpenLog:
        """Open the file for appending."""
        creates_now = creates and self._most_bytes is None
        try:
            return OpenLog(self._path, creates=creates_now)
        except FileNotFoundError:
            if not creates:
                raise
        if self._most_bytes is None:
            make_private_directory(os.path.dirname(self._path), durable=False)
        else:
            self._begin_next()
        return OpenLog(self._path, creates=creates_now)

    def start(self) -> Position:
        """Begin a file if there is none to continue; return the end of the log.

        Raises:
            OSError: The file can't be created or read.
        """
        if self._is_due():
            self._begin_next()
        return self.end()

    def end(self) -> Position:
        """Return the position after the last whole line.

        Raises:
            FileNotFoundError: There is no log.
        """
        with _reading(self._path) as log:
            name, _ = _header(log)
            size = os.fstat(log).st_size
            start = max(0, size - self._line_bytes)
            return Position(name, start + os.pread(log, size - start, start).rfind(b"\n") + 1)

    def read(self, after: Position, most: int) -> Sequence[tuple[bytes, Position]] | None:
        """Return up to ``most`` lines of a bounded log, and the position after each.

        Args:
            after: The position before the first line.
            most: The maximum number of lines.

        Returns:
            The lines without their line breaks; None if the log has no such position any more.
        """
        with suppress(FileNotFoundError), _reading(self._path) as log:
            name, before = _header(log)
            if name and name == after.log:
                return self._read(log, name, after.offset, most)
            if before and before == after.log:
                with _reading(self._earlier) as earlier:
                    lines = None
                    if _header(earlier)[0] == before:
                        lines = self._read(earlier, before, after.offset, most)
                if lines is None:
                    return None
                return [*lines, *(self._read(log, name, _HEADER_BYTES, most - len(lines)) or ())]
        return None

    def lines(self, start: int = 0) -> Iterator[tuple[bytes, int]]:
        """Yield the whole lines of the file from an offset on, and the offset of each end."""
        with suppress(FileNotFoundError), _reading(self._path) as log:
            yield from self._lines(log, start)

    def all(self) -> Sequence[bytes]:
        """Return the whole lines of a bounded log, and of the file before."""
        found: list[bytes] = []
        for path in (self._earlier, self._path):
            with suppress(FileNotFoundError), _reading(path) as log:
                start = _HEADER_BYTES if _header(log)[0] else 0
                found += [line for line, _ in self._lines(log, start)]
        return found

    def remove(self) -> None:
        """Delete the log."""
        for path in (self._path, self._earlier):
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _read(
        self, log: int, name: str, start: int, most: int
    ) -> Sequence[tuple[bytes, Position]] | None:
        is_known = _HEADER_BYTES <= start <= os.fstat(log).st_size
        if not is_known or os.pread(log, 1, start - 1) != b"\n":
            return None
        lines = islice(self._lines(log, start), most)
        return [(line, Position(name, end)) for line, end in lines]

    def _lines(self, log: int, start: int) -> Iterator[tuple[bytes, int]]:
        place, rest = start, b""
        while piece := os.pread(log, _PIECE, place + len(rest)):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                place += len(line) + 1
                yield line, place
            if len(rest) > self._line_bytes:  # too long: what is left of it is skipped, too
                place, rest = place + len(rest), b""

    def _is_due(self) -> bool:
        """Return whether a new file has to be begun."""
        try:
            with _reading(self._path) as log:
                name, _ = _header(log)
                size = os.fstat(log).st_size
        except FileNotFoundError:
            return True
        is_ours = bool(name) and name.startswith(self._epoch) if self._named else True
        return not is_ours or size > (self._most_bytes or size)

    def _begin_next(self) -> None:
        """Begin a new file, unless another process does so at this moment."""
        with held_if_free(self._path) as is_free:
            if is_free is False or not self._is_due():
                return
            before = self._set_aside() if is_free else ""
            name = f"{self._epoch}{secrets.token_hex(8)}"[:16]
            header = f"{name} {before or '-' * 16}\n".encode() if self._named else b""
            with suppress(FileExistsError):  # another process was faster
                write_atomically(self._path, header, exclusive=not is_free, durable=False)

    def _set_aside(self) -> str:
        """Keep the file as the one before; return its name. The path is never without a file."""
        aside = f"{os.path.dirname(self._path)}/.log.{new_file_tag()}.tmp"
        try:
            with _reading(self._path) as log:
                name, _ = _header(log)
            os.link(self._path, aside, follow_symlinks=False)
            os.replace(aside, self._earlier)
        except OSError:
            return ""  # readers of it have to start over
        return name


@contextmanager
def _reading(path: str) -> Iterator[int]:
    descriptor, _ = open_regular(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _header(log: int) -> tuple[str, str]:
    """Return the names of a file and of the one before; empty without a header."""
    header = _HEADER.fullmatch(os.pread(log, _HEADER_BYTES, 0))
    return (header[1].decode(), header[2].decode()) if header else ("", "")
