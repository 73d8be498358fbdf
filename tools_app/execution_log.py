"""Records tool calls in the background, and computes statistics of the newest ones.

Arguments and results are not recorded: they may be private, and the session holds them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

import msgspec

from mochi_project.principal import principal
from sessions_app.errors import StorageError
from sessions_app.surrogates import join_surrogates
from tools_app.schemas import ToolStatisticsOut
from tools_app.storage.call_log import KEPT, CallLog, ToolExecution
from tools_app.text import shortened

logger = logging.getLogger(__name__)

MOST_WAITING = 10_000  # while a disk hangs; then the oldest are lost
MAX_MESSAGE_CHARS = 500


def statistics(executions: Sequence[ToolExecution]) -> dict[str, ToolStatisticsOut]:
    """Return the statistics of each tool that was called, by name."""
    by_tool: dict[str, list[ToolExecution]] = {}
    for execution in executions:
        by_tool.setdefault(execution.tool_name, []).append(execution)
    return {name: _statistics_of(by_tool[name]) for name in sorted(by_tool)}


class ExecutionLog:
    """Writes the records of calls to the log in the background.

    A record that can't be written is reported in the server's log and lost: it fails no tool call.
    """

    def __init__(self, log: CallLog) -> None:
        self._log = log
        self._waiting: deque[ToolExecution] = deque(maxlen=MOST_WAITING)
        self._writing: asyncio.Task[None] | None = None

    def record(self, execution: ToolExecution) -> None:
        """Write the record in the background, and return at once; called on the event loop."""
        self._waiting.append(_capped(execution))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def recent(self, limit: int = KEPT) -> Sequence[ToolExecution]:
        """Return the owner's newest executions of all processes, newest first."""
        await self._written()
        return await asyncio.to_thread(self._log.newest, limit, principal().owner)

    async def aclose(self) -> None:
        """Wait until every record is written, and close the log."""
        await self._written()
        self._log.close()

    async def _written(self) -> None:
        while self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])  # awaiting the task itself could cancel it

    async def _write(self) -> None:
        while self._waiting:
            batch = list(self._waiting)
            self._waiting.clear()
            try:
                await asyncio.to_thread(self._log.append, batch)
            except (OSError, StorageError) as error:  # TimeoutError is an OSError
                logger.warning("%d tool calls could not be recorded: %s", len(batch), error)


def _capped(execution: ToolExecution) -> ToolExecution:
    if execution.error_message is None:
        return execution
    message = join_surrogates(shortened(execution.error_message, MAX_MESSAGE_CHARS))
    return msgspec.structs.replace(execution, error_message=message)


def _statistics_of(executions: Sequence[ToolExecution]) -> ToolStatisticsOut:
    durations = [execution.duration_ms for execution in executions]
    return ToolStatisticsOut(
        calls=len(executions),
        failures=sum(not execution.success for execution in executions),
        average_ms=round(sum(durations) / len(durations), 3),
        slowest_ms=max(durations),
        last_called_at=max(execution.started_at for execution in executions),
    )
