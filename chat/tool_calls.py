"""Runs the tool calls of a turn: in parallel, results in the order of the calls."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec
from msgspec import UNSET

from chat.approval import DecidedCall, Emit, NumberedCall
from chat.completion import ToolCallRecord
from chat.events import StatusChanged, ToolCallStarted, ToolResultReceived
from sessions_app.errors import MochiError
from sessions_app.identity import new_message_id, utc_now
from sessions_app.messages import ToolCall, ToolMessage
from tools_app.errors import ToolNotFound
from tools_app.offer import ToolOffer
from tools_app.toolset import ToolInvocation, ToolProgress, ToolResult, Toolset

SUMMARY_LENGTH = 200
QUIET_SECONDS = 2.0
PROGRESS_SECONDS = 0.1

Note = Callable[[str, object], None]


class ToolCallRunner:
    """Runs calls against a toolset and counts them through the turn.

    Attributes:
        running: The calls that were started and have no result yet.
    """

    def __init__(self, toolset: Toolset, *, offer: ToolOffer, session_id: str) -> None:
        self.running: list[ToolCall] = []
        self._toolset = toolset
        self._offer = offer
        self._session_id = session_id
        self._next_index = 0

    def number(self, calls: Sequence[ToolCall]) -> list[NumberedCall]:
        """Give the calls of a round their numbers within the turn."""
        first = self._next_index
        self._next_index += len(calls)
        return [NumberedCall(call=call, index=index) for index, call in enumerate(calls, first)]

    async def run(
        self, calls: Sequence[DecidedCall], *, emit: Emit, note: Note
    ) -> AsyncGenerator[tuple[ToolMessage, ToolResultReceived, ToolCallRecord], None]:
        """Run the calls of one round and yield what came of each, in order.

        Args:
            calls: What was decided of each.
            emit: Called with events.
            note: Called with what is journalled only: clients learn of a call that they approved
                by its result (seed 000 section 10.3), recovery must know that it started.

        Yields:
            The message for the session, the event for the client, and the entry of
            ``tool_calls_executed``. When the iteration is stopped early, so are the tools.
        """
        self.running = [item.call for item in calls if item.refusal is None]
        for item in calls:
            if item.approved:
                note(ToolCallStarted.event, msgspec.structs.asdict(_started(item)))
        free = [_started(item) for item in calls if not item.approved and item.refusal is None]
        if free:
            emit(free)
        tasks = [asyncio.create_task(self._call(item, emit)) for item in calls]
        quiet = asyncio.get_running_loop().call_later(
            QUIET_SECONDS, emit, [StatusChanged(state="waiting_for_tool")]
        )
        try:
            for item, task in zip(calls, tasks, strict=True):
                result, milliseconds = await task
                if item.refusal is None:
                    self.running.remove(item.call)
                yield _outcome(item, result, milliseconds)
        finally:
            quiet.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def unanswered(self, content: str, *others: ToolCall) -> list[ToolMessage]:
        """Return results with this text for calls that are running, and for others."""
        return [_message(call, content) for call in (*self.running, *others)]

    async def _call(self, item: DecidedCall, emit: Emit) -> tuple[ToolResult, float]:
        if item.refusal is not None:
            return item.refusal, 0.0
        started = time.perf_counter()
        invocation = ToolInvocation(
            name=item.call.name,
            arguments=item.arguments,
            session_id=self._session_id,
            tool_call_id=item.call.id,
            call_index=item.index,
            report=_ProgressReport(item.call.id, emit),
        )
        try:
            if not self._offer.allows(item.call.name):
                raise ToolNotFound(item.call.name)
            result = await self._toolset.call_tool(invocation)
        except MochiError as error:
            result = ToolResult(success=False, error_message=error.message, error_code=error.code)
        return result, round((time.perf_counter() - started) * 1000, 3)


class _ProgressReport:
    """Tells listeners how far a tool is, ten times a second at most."""

    def __init__(self, tool_call_id: str, emit: Emit) -> None:
        self._tool_call_id = tool_call_id
        self._emit = emit
        self._next = 0.0

    def __call__(self, progress: ToolProgress) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PROGRESS_SECONDS
        self._emit(
            [
                StatusChanged(
                    state="waiting_for_tool",
                    tool_call_id=self._tool_call_id,
                    progress=progress.progress,
                    total=UNSET if progress.total is None else progress.total,
                    message=UNSET
                    if progress.message is None
                    else progress.message[:SUMMARY_LENGTH],
                )
            ]
        )


def _started(item: DecidedCall) -> ToolCallStarted:
    return ToolCallStarted(
        tool_name=item.call.name,
        arguments=item.arguments,
        call_index=item.index,
        tool_call_id=item.call.id,
    )


def _outcome(
    item: DecidedCall, result: ToolResult, milliseconds: float
) -> tuple[ToolMessage, ToolResultReceived, ToolCallRecord]:
    call = item.call
    text = (result.result if result.success else result.error_message) or ""
    event = ToolResultReceived(
        tool_name=call.name,
        success=result.success,
        result=result.result,
        error_message=result.error_message,
        call_index=item.index,
        tool_call_id=call.id,
        summary=text[:SUMMARY_LENGTH],
        execution_time_ms=milliseconds,
        error_code=UNSET if result.error_code is None else result.error_code,
        server=UNSET if result.server is None else result.server,
    )
    record = ToolCallRecord(
        tool_name=call.name,
        tool_call_id=call.id,
        call_index=item.index,
        arguments=dict(item.arguments),
        success=result.success,
        result=result.result,
        error_message=result.error_message,
        execution_time_ms=milliseconds,
    )
    content = text if result.success else f"Error: {text}"
    if item.was_edited:  # or the model would take the result for one of what it asked for
        ran_with = msgspec.json.encode(item.arguments).decode()
        content = f"(The user changed the arguments to {ran_with}.)\n{content}"
    return _message(call, content), event, record


def _message(call: ToolCall, content: str) -> ToolMessage:
    return ToolMessage(
        content=content,
        message_id=new_message_id(),
        timestamp=utc_now(),
        tool_name=call.name,
        tool_call_id=call.id,
    )
