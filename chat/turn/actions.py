"""Performs the actions of the state machine: call the model, run tools, save, report."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

from msgspec import UNSET

from chat.approvals.approver import Approver, NobodyToApprove
from chat.approvals.decided_calls import DecidedCall, NumberedCall, lost
from chat.errors import EmptyAnswer, ShuttingDown, TurnCrashed, TurnLimitReached, TurnLost
from chat.stream.commit_point import CommitPoint
from chat.stream.events import Event, ToolContinuationStarted
from chat.stream.notes import HandedOver, Stopped
from chat.stream.turn_stream import TurnStream
from chat.stream.usage import TurnUsage
from chat.turn.answers import TurnAnswers
from chat.turn.delegation import CallingTurn, RunningNow, asked_with
from chat.turn.job import TurnJob
from chat.turn.model_answer import ModelAnswer
from chat.turn.model_caller import ModelCaller
from chat.turn.outcome import Outcome, cancelled, completed, done, failed, window_used
from chat.turn.round import CallState
from chat.turn.session_writer import SessionWriter
from chat.turn.state_machine import Action, Input, TurnMachine
from chat.turn.tool_calls import CallOutcome, ToolCallRunner, left_to_client, refusals
from sessions_app.calls import named_call
from sessions_app.errors import MochiError
from sessions_app.messages import INTERRUPTED_RESULT, AssistantMessage, ToolCall

logger = logging.getLogger(__name__)


class TurnActions:
    """The actions of one turn; some report an input to the table.

    Attributes:
        outcome: The outcome of the turn, filled while it runs.
        commit_point: Decides when the first event may be sent.
        children: What tells of the turns that run for this one.
        session_writer: Writes the turn's messages into its session.
        approver: Decides which calls may run.
    """

    def __init__(
        self,
        job: TurnJob,
        *,
        stream: TurnStream,
        session_writer: SessionWriter,
        tools: ToolCallRunner,
        approver: Approver,
        machine: TurnMachine,
    ) -> None:
        self.outcome = Outcome()
        self.children: set[RunningNow] = set()
        self.session_writer = session_writer
        self.approver = approver
        self._answers = TurnAnswers(job)
        self.commit_point = CommitPoint(stream, job.first_event(self._answers.next_id))
        self._job = job
        self._stream = stream
        self._tools = tools
        self._machine = machine
        self._answer: ModelAnswer | None = self._answers.begun
        self._has_saved = False
        if (resumed := job.resumed) is None:
            tools.begin_round(job.continuation.open_calls)
        else:
            tools.resume(resumed.calls, resumed.next_index)
            self.outcome.tool_calls += resumed.executed
            self._has_saved = resumed.rounds > 0
        self._asking_id = job.continuation.asking_id
        self._caller = ModelCaller(
            job,
            stream=stream,
            commit_point=self.commit_point,
            session_writer=session_writer,
            machine=machine,
        )

    def perform(self, action: Action) -> Awaitable[Input | None]:
        """Perform an action, which has the name of its method.

        The returned input is the next one of the state machine.
        """
        method: Callable[[], Awaitable[Input | None]] = getattr(self, action)
        return method()

    async def ask_for_plan(self) -> Input:
        """Ask the model what to do, in the first of two phases."""
        return await self._ask(planning=True)

    async def ask_model(self) -> Input:
        """Ask the model, and report what kind of answer it gave."""
        return await self._ask(planning=False)

    async def continue_answer(self) -> Input:
        """Have the model go on with the answer that another process began."""
        return await self._ask(planning=False, begun=self._answers.begun)

    async def _ask(self, *, planning: bool, begun: ModelAnswer | None = None) -> Input:
        answer = self._answer = begun or self._answers.begin(self._tools.next_index)
        await self._caller.ask(answer, self._tools.specs, planning=planning)
        if answer.calls:
            answer.leave_to_client(self._job.available_tools.client_tools)
            return Input.ANSWERED if answer.is_left_to_client else Input.ASKED_FOR_TOOLS
        return Input.ANSWERED_EMPTY if answer.is_empty and not answer.thinking else Input.ANSWERED

    async def drop_calls(self) -> None:
        """Discard the calls of an answer to a request without tools."""
        self._current_answer().calls.clear()

    # Tools

    async def save_round(self) -> None:
        """Save an answer after which the turn goes on."""
        answer = self._current_answer()
        self._tools.begin_round(answer.calls)
        self._asking_id = answer.message_id
        saved = self._answers.message(answer)
        calls = self._tools.round.calls(CallState.OPEN)
        # Where nobody is asked they begin next; else the claim tells of them once all are decided.
        begun = () if self.approver.must_ask(calls) else self._named(calls)
        await self.session_writer.append(saved, begun=begun)
        self._answer, self.outcome.message, self._has_saved = None, saved, True

    async def ask_approval(self) -> Input:
        """Get decisions on the calls, from the session's policy or a person."""
        self.commit_point.commit()
        self._stream.require_room()
        if self._job.follows_settings:  # they may have changed while the model answered
            self.approver.follow(self.session_writer.session.metadata.tool_settings)
        is_resumed, unclear = self._answers.is_empty, frozenset[str]()
        items: Sequence[NumberedCall] = self._tools.round.items(CallState.OPEN)
        decided: list[DecidedCall] = []
        if is_resumed and (resumed := self._job.resumed) is not None:
            unclear = resumed.unclear
            decided += [lost(item) for item in items if item.call.id in resumed.lost]
            items = [item for item in items if item.call.id not in resumed.lost]
        try:
            decided += await self.approver.decide(
                items,
                message_id=self._asking_id,
                emit=self._stream.emit,
                resumed=is_resumed,
                unclear=unclear,
            )
        except NobodyToApprove as nobody:
            self.outcome.confirmations = nobody.confirmations
            return Input.NOBODY_TO_ASK
        # Refusals are saved before a tool runs: a round that is stopped would leave them open.
        for item in decided:
            allowed = item.refusal is None
            self._tools.round.set([item], CallState.ALLOWED if allowed else CallState.ENDED)
        if outcomes := refusals(decided):
            await self.session_writer.append(*(outcome.message for outcome in outcomes))
        for outcome in outcomes:
            self._report(outcome)
        return Input.CALLS_DECIDED

    async def run_tools(self) -> Input:
        """Run the calls that may run, and save every result."""
        running = self._tools.run(
            self._tools.round.allowed(),
            self._calling_turn(),
            message_id=self._asking_id,
            note=self._stream.note,
            secure=self._secure,
        )
        try:
            async with aclosing(running) as outcomes:
                async for outcome in outcomes:
                    if self._machine.stopping is not None:
                        raise asyncio.CancelledError
                    steered = self._tools.round.is_last_running and self._machine.asks_again
                    await self.session_writer.append(outcome.message, steered=steered)
                    self._report(outcome)
        except NobodyToApprove as nobody:
            self.outcome.confirmations = nobody.confirmations
            return Input.NOBODY_TO_ASK
        is_left = left_to_client(self._tools.round)
        return Input.LEFT_TO_CLIENT if is_left else Input.TOOLS_RETURNED

    def _report(self, outcome: CallOutcome) -> None:
        if outcome.is_shown:
            self._stream.emit([outcome.event])
        else:
            self._stream.note(outcome.event)
        self.outcome.tool_calls.append(outcome.call)

    async def take_steers(self) -> None:
        """Take the messages that people sent meanwhile, and send them to listeners."""
        if steers := await self.session_writer.steers():
            self._stream.emit(steers)

    async def report_continuation(self) -> None:
        """Send the event that announces the next request to the model."""
        self._stream.emit([ToolContinuationStarted(message_id=self._answers.next_id)])

    def _named(self, calls: Sequence[ToolCall]) -> Sequence[str]:
        return [named_call(self._asking_id, call.id) for call in calls]

    async def _secure(self, calls: Sequence[ToolCall], *, durable: bool) -> None:
        """Record which calls start, before they run (docs/decisions/0029, 0068)."""
        await self._stream.flushed()
        self._stream.require_room()
        self.session_writer.require_hold()
        await self.session_writer.begin(self._named(calls))
        if durable:
            await self.session_writer.secure(self._stream.sync)

    def _calling_turn(self) -> CallingTurn:
        return CallingTurn(
            session=self._job.session,
            approver=self.approver,
            emit=self._stream.emit,
            queues=self._tools.queues,
            children=self.children,
            attachments=asked_with(self.session_writer.history()),
            options=self._job.options,
            why_stopped=lambda: self.outcome.error,
            require_hold=self.session_writer.require_hold,
        )

    # The end

    async def blame_empty_answer(self) -> None:
        """Set the error for an empty answer."""
        self.outcome.error = EmptyAnswer([tool.name for tool in self._tools.specs])

    async def blame_round_limit(self) -> None:
        """Set the error for too many rounds of tool calls."""
        self.outcome.error = TurnLimitReached(
            f"The model asked for tools in {self._machine.rounds} rounds; that is the limit.",
            limit=self._job.tool_limits.rounds,
        )

    async def save_answer(self) -> None:
        """Save the final answer; one that left calls to the client may be saved already."""
        answer = self._answer
        if answer is not None:
            self._tools.begin_round(answer.calls)
        await self.finish(self.outcome.message if answer is None else self._answers.message(answer))

    async def save_cancelled(self) -> None:
        """Save the partial answer of a cancelled turn."""
        self.commit_point.commit()
        if self._tools.round.calls(CallState.OPEN, CallState.ALLOWED):
            self._answer = None  # its message was being saved, which a cancellation waits for
        answer = self._answer or ModelAnswer(self._answers.next_id)
        await self.approver.withdraw()
        unanswered = set(CallState) - {CallState.ENDED}
        await self.session_writer.append(
            *self._tools.failed("The call was cancelled.", *unanswered)
        )
        await self.finish(self._answers.message(answer, cancelled=True))

    async def save_interrupted(self) -> None:
        """Save the partial answer of an interrupted turn."""
        answer = self._answer
        unanswered = {CallState.RUNNING}
        if answer is None:  # the client was not told of its calls
            unanswered.add(CallState.LEFT_TO_CLIENT)
        await self.session_writer.append(*self._tools.failed(INTERRUPTED_RESULT, *unanswered))
        partial = answer if answer is not None and answer.text else None
        await self.finish(self._answers.message(partial, interrupted=True) if partial else None)

    async def leave(self) -> None:
        """Leave the claim and the journal to be sealed by other processes (docs/decisions/0028).

        Without a writer, the journal shows that the turn is over, regardless of its claim. It holds
        the events that clients saw, and which calls had started.
        """
        logger.error("what the turn left could not be saved; it is sealed as soon as it can be")
        self._stream.leave()

    async def finish(self, message: AssistantMessage | None) -> None:
        """Save the last message and release the session for the next turn."""
        window, self.outcome.message = self._caller.window, message
        self.outcome.context_window = window_used(window, message)
        refused = message is None and not self.commit_point.is_committed
        undoes = message is None and not self._has_saved
        if not self._job.rewinds:  # docs/decisions/0003
            undoes &= refused and self.outcome.blames_request and bool(self._job.messages)
        how = {"refused": refused, "undoes": undoes}
        await self.session_writer.finish(message, window, self._machine.state.pauses, **how)
        self._has_saved = self._has_saved or message is not None

    async def report_complete(self) -> None:
        """Send the saved answer as the last event."""
        message = self.outcome.message
        if message is None:
            raise TurnCrashed
        self.commit_point.commit()
        await self.close(
            *left_to_client(self._tools.round),
            completed(
                message,
                turn_id=self._job.turn_id,
                context_window=self.outcome.context_window,
                tool_calls=self.outcome.tool_calls,
                usage=self.count(),
                parsed=UNSET if self._answer is None else self._answer.parsed,
            ),
        )

    async def report_cancelled(self) -> None:
        """Send the event of a cancelled turn, with its partial answer."""
        message = self.outcome.message
        if message is None:
            raise TurnCrashed
        self._stream.note(Stopped(**self.outcome.stopped))
        answer = self._answer
        await self.close(
            cancelled(message, text=answer.text if answer else "", usage=self.count()),
        )

    async def report_error(self) -> None:
        """Send the error as an event, or before the first event as an HTTP error.

        A turn that saved an answer counts as begun even if its journal has no event: a refused
        client would send the request again, and the message would be saved twice.
        """
        error = self.outcome.error = self.outcome.error or TurnCrashed()
        if not (self.commit_point.is_committed or self._has_saved):
            self.commit_point.withdraw()
            await self._stream.abandon()
            self._refuse(error)
            return
        await self.close(failed(error, self.count()))

    async def note_hand_over(self) -> None:
        """Journal, as the last line, that this process lets go of the turn."""
        self.outcome.error = self.outcome.error or ShuttingDown()
        self.commit_point.commit()
        self._stream.note(HandedOver())
        await self._stream.flushed()

    async def report_loss(self) -> None:
        """End the stream without an event: the process that has the turn then reports its end."""
        error = self.outcome.error = self.outcome.error or TurnLost()
        self.commit_point.withdraw()
        self._stream.break_off()
        if not self.commit_point.is_committed:
            self._refuse(error)

    def _refuse(self, error: MochiError) -> None:
        """Make an error the response to the request that started the turn."""
        if self._job.is_saved:
            # How else would a client know of a session that was made for this turn?
            error.details.setdefault("session_id", self._job.session.session_id)
            error.details.setdefault("message_saved", not self.session_writer.is_undone)
        self.commit_point.refuse(error)

    async def report_suspended(self) -> None:
        """Record the pending approvals, and end the stream."""
        self._stream.note(self.outcome.suspension())
        await self.session_writer.finish(None, self._caller.window)
        await self.close(*left_to_client(self._tools.round))

    def count(self) -> TurnUsage | None:
        """Return the usage of the turn so far, and store it in the outcome."""
        self.outcome.usage = self._answers.usage()
        return self.outcome.usage

    async def close(self, *last: Event) -> None:
        """Send the last events, and ``done`` after them."""
        session, taken = self.session_writer.session, self.session_writer.taken_steers()
        end = done(last, self.outcome.message, session=session, usage=self.count())
        await self.commit_point.finish([*taken, *last, end])

    def _current_answer(self) -> ModelAnswer:
        if self._answer is None:
            raise TurnCrashed
        return self._answer
