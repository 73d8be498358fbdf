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
from itertools import islice
from pathlib import Path

from sessions_app.store.append_log import AppendLog, OpenLog
from usage_app.record import LINE_BYTES, UsageRecord, line_of, read_line

logger = logging.getLogger(__name__)

SUFFIX = ".jsonl"
_NAME = re.compile(r"(\d{4}-(?:0[1-9]|1[0-2]))\.jsonl", re.ASCII)

Cursor = Mapping[str, int]
"""A place in the ledger: how many bytes of which months were read. An empty one is its beginning,
``{"2026-11": 0}`` that of a month."""


class Ledger:
    """The ledger of a data directory. Blocks.

    Args:
        directory: The directory of its files; created with the first line.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._open: tuple[str, OpenLog | None] = "", None

    def append(self, records: Sequence[UsageRecord]) -> None:
        """Append records, each in one write to the file of its month.

        Writes go to the page cache in microseconds, less than a switch to a thread takes, so they
        are allowed on the event loop.

        Raises:
            OSError: Some records could not be written.
        """
        for record in records:
            line = line_of(record)
            if len(line) <= LINE_BYTES:  # readers take no longer ones
                self.open(record.month).append([line])
            else:
                logger.warning(
                    "a usage record is too long, and is left out", extra={"call_id": record.call_id}
                )

    def open(self, month: str) -> OpenLog:
        """Return the file of a month, open for appending until that of another one is.

        Raises:
            OSError: It can't be opened.
        """
        known, log = self._open
        if log is None or known != month or not log.is_there:
            log = self._log(month).open()
            self._open = month, log
        return log

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

    def follow_month(self, month: str, start: int) -> Iterator[tuple[UsageRecord | None, int]]:
        """Yield the record of each line of a month (None if unreadable) and the offset of its end.

        Args:
            month: The month: ``2026-11``.
            start: The byte at which the first of these lines begins.
        """
        for line, end in self._log(month).lines(start):
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
            for record, end in islice(self.follow_month(month, place), left):
                places[month] = end
                left = None if left is None else left - 1
                if record is not None:
                    records.append(record)
        return records, places

    def _path(self, month: str) -> Path:
        return self.directory / f"{month}{SUFFIX}"

    def _log(self, month: str) -> AppendLog:
        return AppendLog(self._path(month), line_bytes=LINE_BYTES)
