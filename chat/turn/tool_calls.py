"""Runs the tool calls of a turn: side by side or in a queue, results in the order of the calls."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from chat.approvals.approver import Emit, NobodyToApprove
from chat.approvals.confirmation import Confirmation
from chat.approvals.decided_calls import DecidedCall, NumberedCall
from chat.stream.attached_file import AttachedFile
from chat.stream.events import (
    ClientToolCall,
    FinishedCall,
    StatusChanged,
    ToolCallStarted,
    ToolResultReceived,
)
from chat.turn.call_questions import CallQuestions
from chat.turn.call_queues import CallQueues
from chat.turn.delegation import CallingTurn, Delegate
from chat.turn.observer import TURN_LOG, ToolEnd, ToolStart, TurnObserver
from chat.turn.progress import ProgressReport
from chat.turn.round import CallState, Round
from models_app.call_arguments import fault_of
from sessions_app.errors import MochiError
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import ToolCall, ToolMessage, ToolSpec, mark_changed
from sessions_app.surrogates import is_unicode, join_surrogates
from tools_app.available_tools import AvailableTools
from tools_app.errors import ArgumentsInvalid, ToolNotFound
from tools_app.tool_search import answer as find_tools
from tools_app.toolset import ToolInvocation, ToolResult, Toolset

QUIET_SECONDS = 2.0

RUNNING, ENDED = CallState.RUNNING, CallState.ENDED

Note = Callable[[ToolCallStarted], None]


class RecordStarted(Protocol):
    """Records which calls start, before they run."""

    def __call__(self, calls: Sequence[ToolCall], *, durable: bool) -> Awaitable[None]:
        """Record the calls; raise if they must not run. ``durable``: survives a power failure."""


class CallOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one call, for the session, clients and the turn's outcome.

    Attributes:
        message: The message for the session.
        event: The event for clients.
        is_shown: Whether the event is sent; agents send an event of their own at their end.
        call: The entry in the turn's outcome.
    """

    message: ToolMessage
    event: ToolResultReceived
    is_shown: bool
    call: FinishedCall


class ToolCallRunner:
    """Runs the tool calls of a turn, and numbers them.

    Args:
        toolset: Runs tools.
        available_tools: The tools that the model may call.
        session_id: The session.
        delegate: Runs calls that are turns of their own; None without agents.
        queues: The queues of calls that could undo each other's work; an agent's turn shares those
            of the calling turn.
        observer: Observes the calls.

    Attributes:
        round: The calls of the current round.
        next_index: The number of the next call.
    """

    def __init__(
        self,
        toolset: Toolset,
        *,
        available_tools: AvailableTools,
        session_id: str,
        delegate: Delegate | None = None,
        queues: CallQueues | None = None,
        observer: TurnObserver = TURN_LOG,
    ) -> None:
        self.queues = queues or CallQueues()
        self._observer = observer
        self.round = Round()
        self._toolset = toolset
        self._available = available_tools
        self._session_id = session_id
        self._delegate = delegate
        self.next_index = 0

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The descriptions that are sent to the model, with those that came in this turn."""
        return self._available.specs

    def begin_round(self, calls: Sequence[ToolCall]) -> None:
        """Begin a round, whose calls are numbered within the turn."""
        first = self.next_index
        self.next_index += len(calls)
        self.round = Round(NumberedCall(call=call, index=i) for i, call in enumerate(calls, first))

    def resume(self, calls: Sequence[NumberedCall], next_index: int) -> None:
        """Go on with a round that another process began."""
        self.round, self.next_index = Round(calls), next_index

    async def run(
        self,
        calls: Sequence[DecidedCall],
        turn: CallingTurn,
        *,
        message_id: str,
        note: Note,
        secure: RecordStarted,
    ) -> AsyncGenerator[CallOutcome, None]:
        """Run the calls of one round and yield their results, in order.

        Calls of tools that share a queue run one at a time, in the model's order. Stopping the
        iteration stops the tools; queued calls then never start.

        Args:
            calls: The calls that may run, each with the decision on it.
            turn: The calling turn.
            message_id: The message with the calls.
            note: Journals starts without an event: of approved, agents' and repeated calls.
            secure: Awaited before the calls run; they don't run if it raises.

        Raises:
            NobodyToApprove: At the end, if calls of agents wait for an approval.
        """
        self.round.set(calls, RUNNING)
        self._announce(calls, turn.emit, note)
        durable = any(self._available.is_destructive(item.call.name) for item in calls)
        await secure([item.call for item in calls], durable=durable)
        asking = [self._questions(item, turn, message_id, note, secure) for item in calls]
        tasks = [asyncio.create_task(self._call_in_turn(turn, each)) for each in asking]
        quiet = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._tell_wait, turn.emit)
        unasked: list[Confirmation] = []
        try:
            for item, task in zip(calls, tasks, strict=True):
                await _settled(task)
                try:
                    result, milliseconds, has_own_event = task.result()
                except NobodyToApprove as nobody:
                    unasked += nobody.confirmations
                    self.round.set([item], CallState.OPEN)
                    continue
                outcome = _outcome(item, result, milliseconds, is_shown=not has_own_event)
                self._available = self._available.after([outcome.message])
                yield outcome
                self.round.set([item], ENDED)  # not before it is saved, or it would run once more
        finally:
            quiet.cancel()
            await _stop(tasks)
        if unasked:
            raise NobodyToApprove(unasked)

    def _questions(
        self,
        item: DecidedCall,
        turn: CallingTurn,
        message_id: str,
        note: Note,
        secure: RecordStarted,
    ) -> CallQuestions:
        """Return the questions of a call's server to the person of the turn."""

        async def pause() -> None:
            self.round.set([item], CallState.OPEN)
            await secure([], durable=False)

        async def begin() -> None:
            self.round.set([item], RUNNING)
            note(_started(item))
            durable = self._available.is_destructive(item.call.name)
            await secure([item.call], durable=durable)

        return CallQuestions(
            item,
            message_id=message_id,
            approver=turn.approver,
            emit=turn.emit,
            pause=pause,
            begin=begin,
        )

    def names_of_running(self) -> tuple[list[str], list[str]]:
        """Return the names of the running tools, and of the running agents."""
        tools: list[str] = []
        agents: list[str] = []
        for call in self.round.calls(RUNNING):
            if self._delegate is not None and self._available.delegates(call.name):
                agents.append(self._delegate.describe(call.arguments))
            else:
                tools.append(call.name)
        return tools, agents

    def failed(self, content: str, *states: CallState) -> list[ToolMessage]:
        """Return failed results with this text for the calls in these states."""
        return [_message(call, content, failed=True) for call in self.round.calls(*states)]

    def _tell_wait(self, emit: Emit) -> None:
        """Send a status while tools run; agents send events of their own."""
        if not all(self._available.delegates(call.name) for call in self.round.calls(RUNNING)):
            emit([StatusChanged(state="waiting_for_tool")])

    def _announce(self, calls: Sequence[DecidedCall], emit: Emit, note: Note) -> None:
        shown = []
        for item in calls:
            if item.approved or self._available.delegates(item.call.name):
                note(_started(item))
            else:
                shown.append(_started(item))
        if shown:
            emit(shown)

    async def _call_in_turn(
        self, turn: CallingTurn, questions: CallQuestions
    ) -> tuple[ToolResult, float, bool]:
        """Run a call once the earlier calls in its queue have ended, in whatever way.

        Returns:
            The result, its duration in milliseconds, and whether an agent sent its own event.
        """
        tool = self._available.find(questions.item.call.name)
        async with self.queues.turn(None if tool is None else tool.queue):
            turn.require_hold()
            return await self._call(turn, questions)

    async def _call(
        self, turn: CallingTurn, questions: CallQuestions
    ) -> tuple[ToolResult, float, bool]:
        item, name = questions.item, questions.item.call.name
        tool = self._available.find(name)
        is_agent = self._delegate is not None and self._available.delegates(name)
        started = time.perf_counter()
        invocation = ToolInvocation(
            name=name,
            arguments=item.arguments,
            session_id=self._session_id,
            message_id=questions.message_id,
            tool_call_id=item.call.id,
            call_index=item.index,
            digest=None if tool is None else tool.digest,
            report=ProgressReport(item.call.id, turn.emit),
            links=self._available.links_of(name),
            results=self._available.results if self._available.reads_results(name) else None,
            result_tokens=self._available.result_tokens,
        )
        start = ToolStart(
            name=name,
            tool_call_id=item.call.id,
            session_id=self._session_id,
            is_agent=is_agent,
            arguments=item.arguments,
        )
        self._observer.tool_started(start)
        result: ToolResult | None = None
        try:
            if not self._available.allows(name):
                raise ToolNotFound(name)
            if (fault := fault_of(item.arguments)) is not None:
                raise ArgumentsInvalid([fault])
            if self._delegate is not None and is_agent:
                result = await self._delegate.run(invocation, turn)
            elif self._available.finds_tools(name):
                known = self._available.tools
                result = await asyncio.to_thread(find_tools, item.arguments, known)
            else:
                result = await questions.call(self._toolset, invocation)
        except MochiError as error:
            result = ToolResult(success=False, error_message=error.message, error_code=error.code)
            is_agent = False
        finally:
            seconds = time.perf_counter() - started
            self._observer.tool_ended(ToolEnd.of(start, result, seconds))
        return result, round(seconds * 1000, 3), is_agent


def refusals(calls: Sequence[DecidedCall]) -> list[CallOutcome]:
    """Return the outcomes of the calls that must not run."""
    return [
        _outcome(item, item.refusal, 0.0, is_shown=True)
        for item in calls
        if item.refusal is not None
    ]


def left_to_client(calls: Round) -> list[ClientToolCall]:
    """Return the events of the calls that the client runs."""
    return [
        ClientToolCall(
            tool_name=item.call.name,
            arguments=item.call.arguments,
            call_index=item.index,
            tool_call_id=item.call.id,
        )
        for item in calls.items(CallState.LEFT_TO_CLIENT)
    ]


async def _settled(task: "asyncio.Task[Any]") -> None:
    """Wait for a task without cancelling it, which would start the next call of its queue."""
    await asyncio.wait([task])


async def _stop(tasks: "Sequence[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _started(item: DecidedCall) -> ToolCallStarted:
    return ToolCallStarted(
        tool_name=item.call.name,
        arguments=item.arguments,
        call_index=item.index,
        tool_call_id=item.call.id,
    )


def _outcome(
    item: DecidedCall, result: ToolResult, milliseconds: float, *, is_shown: bool
) -> CallOutcome:
    call = item.call
    result = _mended(result)
    text = (result.error_message or "") if result.result is None else result.result
    finished = FinishedCall(
        tool_name=call.name,
        tool_call_id=call.id,
        call_index=item.index,
        arguments=dict(item.arguments),
        success=result.success,
        result=result.result,
        error_message=result.error_message,
        execution_time_ms=milliseconds,
        attachments=AttachedFile.of(result.attachments),
    )
    failed_silently = not result.success and result.result is None
    content = f"Error: {text}" if failed_silently else text
    if item.was_edited:  # or the model would take the result for one of what it asked for
        content = mark_changed(content, item.arguments)
    message = msgspec.structs.replace(
        _message(call, content, failed=not result.success, error_code=result.error_code),
        attachments=result.attachments,
        links=result.links,
        arguments=item.arguments if item.was_edited else None,
        confirmation_id=item.confirmation_id,
    )
    return CallOutcome(
        message=message,
        event=finished.event(
            error_code=result.error_code,
            server=result.server,
            was_announced=item.refusal is None and not item.approved,
            confirmation_id=item.confirmation_id,
        ),
        is_shown=is_shown,
        call=finished,
    )


def _mended(result: ToolResult) -> ToolResult:
    """Replace lone surrogates in a result, so that it can be saved."""
    if is_unicode(f"{result.result}{result.error_message}"):
        return result
    said, failed = result.result, result.error_message
    return msgspec.structs.replace(
        result,
        result=None if said is None else join_surrogates(said),
        error_message=None if failed is None else join_surrogates(failed),
    )


def _message(
    call: ToolCall, content: str, *, failed: bool, error_code: str | None = None
) -> ToolMessage:
    return ToolMessage(
        content=content,
        message_id=new_message_id(),
        timestamp=utc_now(),
        tool_name=call.name,
        tool_call_id=call.id,
        failed=failed,
        error_code=error_code,
    )
