"""Keeps the usage of models in files: a line for each model call, a file for each month (UTC).

::

    {directory}/2026-11.jsonl

Every process of the data directory appends. Lines are not synced: a power cut may take the last
ones. Readers skip lines that are incomplete, unknown, or of a later version (docs/decisions/0086).
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from weakref import finalize

from sessions_app.store.atomic import PRIVATE_FILE, make_private_directory
from usage_app.record import LINE_BYTES, UsageRecord, line_of, read_line

logger = logging.getLogger(__name__)

SUFFIX = ".jsonl"
_NAME = re.compile(r"(\d{4}-(?:0[1-9]|1[0-2]))\.jsonl", re.ASCII)
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE = 1 << 18

Cursor = Mapping[str, int]
"""A place in the ledger: how many bytes of which months were read. An empty one is its beginning,
``{"2026-11": 0}`` that of a month."""


class MonthFile:
    """A month's file of the ledger, open for appending.

    Writes go to the page cache in microseconds, less than a switch to a thread takes, so they are
    allowed on the event loop.

    Args:
        month: The month: ``2026-11``.
        descriptor: The file, opened for appending and reading; closed by ``close``, or when this
            object is collected.
    """

    def __init__(self, month: str, descriptor: int) -> None:
        self.month = month
        self._descriptor = descriptor
        self._closing = finalize(self, os.close, descriptor)

    @property
    def is_there(self) -> bool:
        """Return whether the file still exists under its name."""
        return os.fstat(self._descriptor).st_nlink > 0

    def append(self, records: Sequence[UsageRecord]) -> None:
        """Append records, each in one write.

        Raises:
            OSError: Some records could not be written.
        """
        lines = [line for record in records if (line := _short_line_of(record))]
        if lines and _is_torn(self._descriptor):
            lines[0] = b"\n" + lines[0]
        for line in lines:
            if os.write(self._descriptor, line) != len(line):
                raise OSError("no space for a whole line")

    def close(self) -> None:
        """Close the file."""
        self._closing()


def _short_line_of(record: UsageRecord) -> bytes | None:
    """Return a record's line; None if it is longer than readers take."""
    line = line_of(record)
    if len(line) <= LINE_BYTES:
        return line
    logger.warning("a usage record is too long, and is left out", extra={"call_id": record.call_id})
    return None


class Ledger:
    """The ledger of a data directory. Blocks.

    Args:
        directory: The directory of its files; created with the first line.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def append(self, records: Sequence[UsageRecord]) -> None:
        """Append records, each in one write to the file of its month.

        Raises:
            OSError: Some records could not be written.
        """
        by_month: dict[str, list[UsageRecord]] = {}
        for record in records:
            by_month.setdefault(record.month, []).append(record)
        for month, of_month in by_month.items():
            with closing(self.open(month)) as file:
                file.append(of_month)

    def open(self, month: str) -> MonthFile:
        """Open the file of a month for appending, and create it if necessary.

        Raises:
            OSError: It can't be opened.
        """
        try:
            descriptor = os.open(self._path(month), _APPEND, PRIVATE_FILE)
        except FileNotFoundError:
            make_private_directory(self.directory, durable=False)
            descriptor = os.open(self._path(month), _APPEND, PRIVATE_FILE)
        return MonthFile(month, descriptor)

    def months(self) -> list[str]:
        """Return the months that have files, the oldest first."""
        try:
            names = os.listdir(self.directory)  # noqa: PTH208
        except FileNotFoundError:
            return []
        return sorted(found[1] for name in names if (found := _NAME.fullmatch(name)))

    def size(self, month: str) -> int:
        """Return the size of a month's file in bytes."""
        return self.identity(month)[1]

    def identity(self, month: str) -> tuple[int, int]:
        """Return inode and size of a month's file; zeros without a file."""
        try:
            found = self._path(month).lstat()
        except FileNotFoundError:
            return 0, 0
        return found.st_ino, found.st_size

    def read(self, first: str = "", last: str = "9999-12") -> Iterator[UsageRecord]:
        """Yield the records of a range of months, the oldest month first.

        Args:
            first: The first month: ``2026-11``.
            last: The last month.
        """
        for month in self.months():
            if first <= month <= last:
                yield from self.read_month(month)

    def read_month(self, month: str) -> Iterator[UsageRecord]:
        """Yield the records of a month."""
        for record, _ in self.follow_month(month, 0):
            if record is not None:
                yield record

    def follow_month(self, month: str, start: int) -> Iterator[tuple[UsageRecord | None, int]]:
        """Yield the record of each line of a month (None if unreadable) and the offset of its end.

        Args:
            month: The month: ``2026-11``.
            start: The byte at which the first of these lines begins.
        """
        for line, end in self._lines(month, start):
            yield read_line(line), end

    def read_since(
        self, cursor: Cursor, most: int | None = None
    ) -> tuple[list[UsageRecord], Cursor]:
        """Return the records after a position, and the position after them.

        Incomplete lines are returned by a later call. Months before the newest two of the cursor
        are not checked again.

        Args:
            cursor: The position.
            most: The maximum number of lines; None for all.
        """
        places = dict(cursor)
        oldest = min(sorted(places)[-2:], default="")
        records: list[UsageRecord] = []
        left = most
        for month in self.months():
            place = places.get(month, 0)
            if month < oldest or self.size(month) <= place:
                continue
            for line, end in islice(self._lines(month, place), left):
                places[month] = end
                left = None if left is None else left - 1
                record = read_line(line)
                if record is not None:
                    records.append(record)
        return records, places

    def end(self, month: str) -> Cursor:
        """Return the position after the current end of a month and those before."""
        return {each: self._end(each) for each in self.months() if each <= month}

    def _path(self, month: str) -> Path:
        return self.directory / f"{month}{SUFFIX}"

    def _end(self, month: str) -> int:
        return max((end for _, end in self._lines(month, 0)), default=0)

    def _lines(self, month: str, start: int) -> Iterator[tuple[bytes, int]]:
        """Yield the complete lines of a month from an offset on, and the offset of each end."""
        try:
            descriptor = os.open(self._path(month), _READ)
        except FileNotFoundError:
            return
        try:
            place, rest = start, b""
            while piece := os.pread(descriptor, _PIECE, place + len(rest)):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    place += len(line) + 1
                    yield line, place
                if len(rest) > LINE_BYTES:  # no line of ours: what is left of it is skipped, too
                    place, rest = place + len(rest), b""
        finally:
            os.close(descriptor)


def _is_torn(descriptor: int) -> bool:
    """Return whether the last line is incomplete, after a full disk or a power failure."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
