"""The record of tool calls: the last hundred, of all workers, and statistics of them.

It says which tool ran, for whom, how long and how that ended. Arguments and results are not kept:
they may be private, and they are in the session for whoever may read that.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from sessions_app.errors import StorageError
from sessions_app.store.atomic import PRIVATE_FILE, make_private_directory, write_atomically
from sessions_app.store.locks import FileLocks
from sessions_app.surrogates import join_surrogates
from tools_app.text import shortened

logger = logging.getLogger(__name__)

KEPT = 100
MOST_WAITING = 10_000  # of a disk that hangs; then the oldest are lost
MAX_MESSAGE_CHARS = 500
# About two thousand calls. A hundred of the longest lines are less, so trimming always helps.
TRIMMED_BEYOND_BYTES = 512 * 1024
LOCK_TIMEOUT_SECONDS = 5
_LOCK = "executions"
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ToolExecution(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool that was made.

    Attributes:
        tool_name: The tool.
        session_id: On whose behalf it ran; empty when a person ran it by hand.
        tool_call_id: The model's call; empty when a person ran it by hand.
        started_at: When, in UTC, ISO 8601.
        duration_ms: How long it took, in milliseconds.
        success: Whether it returned.
        error_code: What went wrong, for programs.
        error_message: What went wrong, for people; 500 characters at most.
        server: The MCP server that ran it, if one did.
    """

    tool_name: str
    session_id: str
    tool_call_id: str
    started_at: str
    duration_ms: float
    success: bool
    error_code: str | None = None
    error_message: str | None = None
    server: str | None = None


class ToolStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What some executions of one tool have in common.

    Attributes:
        calls: How many there were.
        failures: How many of them did not return.
        average_ms: How long they took on average, in milliseconds.
        slowest_ms: How long the slowest one took, in milliseconds.
        last_called_at: When the last one started, in UTC, ISO 8601.
    """

    calls: int
    failures: int
    average_ms: float
    slowest_ms: float
    last_called_at: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ToolExecution).decode


def statistics(executions: Sequence[ToolExecution]) -> dict[str, ToolStatistics]:
    """Return the statistics of each tool that was called, by name."""
    by_tool: dict[str, list[ToolExecution]] = {}
    for execution in executions:
        by_tool.setdefault(execution.tool_name, []).append(execution)
    return {name: _statistics_of(by_tool[name]) for name in sorted(by_tool)}


class ExecutionLog:
    """Keeps the record in one file of JSON lines that all workers append to.

    A record that can't be written is logged and lost: no tool call fails because of it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._locks = FileLocks(path.parent)
        self._waiting: deque[ToolExecution] = deque(maxlen=MOST_WAITING)
        self._writing: asyncio.Task[None] | None = None

    def record(self, execution: ToolExecution) -> None:
        """Write the record in the background, and return at once; called on the event loop."""
        self._waiting.append(_capped(execution))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def recent(self, limit: int = KEPT) -> Sequence[ToolExecution]:
        """Return the newest executions, newest first: this process's and all others'."""
        await self._written()
        return await asyncio.to_thread(self._read, limit)

    async def aclose(self) -> None:
        """Wait until everything that was recorded is written, and close what is open."""
        await self._written()
        self._locks.close()

    async def _written(self) -> None:
        while self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])  # and never cancel it, as awaiting it would

    async def _write(self) -> None:
        while self._waiting:
            batch = list(self._waiting)
            self._waiting.clear()
            try:
                await asyncio.to_thread(self._append, batch)
            except (OSError, StorageError) as error:  # TimeoutError is an OSError
                logger.warning("%d tool calls could not be recorded: %s", len(batch), error)

    def _append(self, batch: Sequence[ToolExecution]) -> None:
        """Append to the file, and trim it when it has grown too much. Blocks.

        The lock keeps an append from going into a file that a trim is about to replace.
        """
        lines = b"".join(_encode(execution) + b"\n" for execution in batch)
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

    def _trim(self, descriptor: int) -> None:
        kept = [_encode(execution) + b"\n" for execution in _newest(descriptor, KEPT)]
        write_atomically(self._path, b"".join(reversed(kept)), durable=False)

    def _read(self, limit: int) -> list[ToolExecution]:
        try:
            descriptor = os.open(self._path, _READ)
        except FileNotFoundError:
            return []
        try:
            return list(_newest(descriptor, limit))
        finally:
            os.close(descriptor)


def _newest(descriptor: int, limit: int) -> Iterator[ToolExecution]:
    """Yield the newest executions of a file, newest first; lines that are none are passed over."""
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


def _capped(execution: ToolExecution) -> ToolExecution:
    if execution.error_message is None:
        return execution
    message = join_surrogates(shortened(execution.error_message, MAX_MESSAGE_CHARS))
    return msgspec.structs.replace(execution, error_message=message)


def _statistics_of(executions: Sequence[ToolExecution]) -> ToolStatistics:
    durations = [execution.duration_ms for execution in executions]
    return ToolStatistics(
        calls=len(executions),
        failures=sum(not execution.success for execution in executions),
        average_ms=round(sum(durations) / len(durations), 3),
        slowest_ms=max(durations),
        last_called_at=max(execution.started_at for execution in executions),
    )
