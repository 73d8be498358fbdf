"""Stores the log of tool calls as one file of JSON lines that all processes append to."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from sessions_app.decoding import decoder_of
from sessions_app.store.atomic import PRIVATE_FILE, make_private_directory, write_atomically
from sessions_app.store.locks import FileLocks
from tools_app.storage.call_log import KEPT, ToolExecution

# About two thousand calls. A hundred of the longest lines are less, so trimming always helps.
TRIMMED_BEYOND_BYTES = 512 * 1024
LOCK_TIMEOUT_SECONDS = 5
_LOCK = "executions"
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_encode = msgspec.json.Encoder().encode
_decode = decoder_of(ToolExecution).decode


class FileCallLog:
    """Appends to the file under a lock, and trims it to its newest records when it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._locks = FileLocks(path.parent)

    def append(self, executions: Sequence[ToolExecution]) -> None:
        """Append lines, and trim the file when it has grown too large.

        The lock keeps an append from going into a file that a trim is about to replace.
        """
        lines = b"".join(_encode(execution) + b"\n" for execution in executions)
        with self._locks.held(_LOCK, timeout_seconds=LOCK_TIMEOUT_SECONDS):
            make_private_directory(self._path.parent)
            descriptor = os.open(self._path, _APPEND, PRIVATE_FILE)
            try:
                size = os.fstat(descriptor).st_size
                if size and os.pread(descriptor, 1, size - 1) != b"\n":
                    lines = b"\n" + lines  # a process was killed while it wrote
                while lines:
                    written = os.write(descriptor, lines)
                    lines, size = lines[written:], size + written
                if size > TRIMMED_BEYOND_BYTES:
                    self._trim(descriptor)
            finally:
                os.close(descriptor)

    def newest(self, limit: int) -> Sequence[ToolExecution]:
        """Return the newest records, newest first."""
        try:
            descriptor = os.open(self._path, _READ)
        except FileNotFoundError:
            return []
        try:
            return list(_newest(descriptor, limit))
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the lock files."""
        self._locks.close()

    def _trim(self, descriptor: int) -> None:
        kept = [_encode(execution) + b"\n" for execution in _newest(descriptor, KEPT)]
        write_atomically(self._path, b"".join(reversed(kept)), durable=False)


def _newest(descriptor: int, limit: int) -> Iterator[ToolExecution]:
    """Yield a file's newest records, newest first; skips lines that can't be decoded."""
    size = os.fstat(descriptor).st_size
    begin = max(0, size - 2 * TRIMMED_BEYOND_BYTES)
    found = 0
    for line in reversed(os.pread(descriptor, size - begin, begin).split(b"\n")):
        if found == limit:
            return
        try:
            execution = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        found += 1
        yield execution
