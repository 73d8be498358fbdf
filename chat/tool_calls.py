"""Runs the tool calls of a turn: in parallel, results in the order of the calls."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence

from msgspec import UNSET

from chat.completion import ToolCallRecord
from chat.events import Event, ToolCallStarted, ToolResultReceived
from sessions_app.errors import MochiError
from sessions_app.identity import new_message_id, utc_now
from sessions_app.messages import ToolCall, ToolMessage
from tools_app.toolset import ToolResult, Toolset

SUMMARY_LENGTH = 200


class ToolCallRunner:
    """Runs calls against a toolset and counts them through the turn.

    Attributes:
        running: The calls that were started and have no result yet.
    """

    def __init__(self, toolset: Toolset) -> None:
        self.running: list[ToolCall] = []
        self._toolset = toolset
        self._next_index = 0

    async def run(
        self, calls: Sequence[ToolCall], emit: Callable[[Sequence[Event]], None]
    ) -> AsyncGenerator[tuple[ToolMessage, ToolResultReceived, ToolCallRecord], None]:
        """Run the calls of one round and yield what came of each, in order.

        Yields:
            The message for the session, the event for the client, and the entry of
            ``tool_calls_executed``. When the iteration is stopped early, so are the tools.
        """
        first_index = self._next_index
        self._next_index += len(calls)
        self.running = list(calls)
        emit(
            [
                ToolCallStarted(
                    tool_name=call.name,
                    arguments=call.arguments,
                    call_index=index,
                    tool_call_id=call.id,
                )
                for index, call in enumerate(calls, first_index)
            ]
        )
        tasks = [asyncio.create_task(self._call(call)) for call in calls]
        try:
            for index, (call, task) in enumerate(zip(calls, tasks, strict=True), first_index):
                result, milliseconds = await task
                self.running.remove(call)
                yield _outcome(call, index, result, milliseconds)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def unanswered(self, content: str, *others: ToolCall) -> list[ToolMessage]:
        """Return results with this text for calls that are running, and for others."""
        return [_message(call, content) for call in (*self.running, *others)]

    async def _call(self, call: ToolCall) -> tuple[ToolResult, float]:
        started = time.perf_counter()
        try:
            result = await self._toolset.call_tool(call.name, call.arguments)
        except MochiError as error:
            result = ToolResult(success=False, error_message=error.message, error_code=error.code)
        return result, round((time.perf_counter() - started) * 1000, 3)


def _outcome(
    call: ToolCall, index: int, result: ToolResult, milliseconds: float
) -> tuple[ToolMessage, ToolResultReceived, ToolCallRecord]:
    text = (result.result if result.success else result.error_message) or ""
    event = ToolResultReceived(
        tool_name=call.name,
        success=result.success,
        result=result.result,
        error_message=result.error_message,
        call_index=index,
        tool_call_id=call.id,
        summary=text[:SUMMARY_LENGTH],
        execution_time_ms=milliseconds,
        error_code=UNSET if result.error_code is None else result.error_code,
    )
    record = ToolCallRecord(
        tool_name=call.name,
        tool_call_id=call.id,
        call_index=index,
        arguments=dict(call.arguments),
        success=result.success,
        result=result.result,
        error_message=result.error_message,
        execution_time_ms=milliseconds,
    )
    content = text if result.success else f"Error: {text}"
    return _message(call, content), event, record


def _message(call: ToolCall, content: str) -> ToolMessage:
    return ToolMessage(
        content=content,
        message_id=new_message_id(),
        timestamp=utc_now(),
        tool_name=call.name,
        tool_call_id=call.id,
    )
