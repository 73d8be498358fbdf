"""Stores the log of tool calls as JSON lines that all processes append to."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from sessions_app.decoding import decoder_of
from sessions_app.store.append_log import AppendLog
from tools_app.storage.call_log import ToolExecution

MOST_BYTES = 512 * 1024
"""The size of a file, about two thousand calls: a hundred of the longest lines are less."""

_encode = msgspec.json.Encoder().encode
_decode = decoder_of(ToolExecution).decode


class FileCallLog:
    """Keeps the newest records in a file, and those before in a second one."""

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self._log = AppendLog(path, most_bytes=most_bytes, named=False)

    def append(self, executions: Sequence[ToolExecution]) -> None:
        """Append records."""
        self._log.append(*(_encode(execution) + b"\n" for execution in executions))

    def newest(self, limit: int, owner: str) -> Sequence[ToolExecution]:
        """Return an owner's newest records, newest first."""
        return list(islice((each for each in self._newest() if each.owner == owner), limit))

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _newest(self) -> Iterator[ToolExecution]:
        """Yield the records, newest first; skip lines that can't be decoded."""
        # A line is in both files if it was appended while the second one was begun.
        for line in dict.fromkeys(reversed(self._log.all())):
            try:
                yield _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
