"""Drives a turn through the table of ``state_machine.py``: model, tools, session file, stream."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from chat.approvals.approver import Approver, DecidedCall, NobodyToAsk
from chat.errors import EmptyAnswer, TurnCrashed, TurnLimitReached
from chat.stream.events import (
    Cancelled,
    Done,
    Event,
    ToolContinuationStarted,
)
from chat.stream.first_event import Opening
from chat.stream.turn_stream import TurnStream
from chat.turn.completion import completed, failed, tokens_of
from chat.turn.delegation import CallingTurn, Running
from chat.turn.job import TurnJob
from chat.turn.model_call import Round
from chat.turn.model_caller import ModelCaller
from chat.turn.outcome import Outcome
from chat.turn.session_writer import SessionRecorder
from chat.turn.state_machine import FINAL, Action, Input, State, transition
from chat.turn.stopping import Cancellation
from chat.turn.tool_calls import ToolCallRunner
from sessions_app.errors import MochiError
from sessions_app.ids_and_clock import new_message_id
from sessions_app.messages import INTERRUPTED_CALL, AssistantMessage, ToolCall

logger = logging.getLogger(__name__)


class TurnEngine:
    """One turn, from the claimed session to the last event.

    ``state`` is where the turn is, ``outcome`` fills as it goes.
    """

    def __init__(
        self,
        job: TurnJob,
        *,
        stream: TurnStream,
        recorder: SessionRecorder,
        tools: ToolCallRunner,
        approver: Approver,
    ) -> None:
        self.state = State.STARTING
        self.outcome = Outcome()
        self._job = job
        self._stream = stream
        self._recorder = recorder
        self._tools = tools
        self._approver = approver
        self._round: Round | None = None
        self._open_calls: Sequence[ToolCall] = job.continuation.open_calls
        self._asking_id = job.continuation.asking_id
        self._decided_calls: Sequence[DecidedCall] = ()
        self._children: set[Running] = set()
        self._stop: Input | None = None
        self._begun = False
        self._task: asyncio.Task[Outcome] | None = None
        self._cancellation: Cancellation | None = None
        self._opening = Opening(stream, job.first_event)
        self._caller = ModelCaller(
            job,
            stream=stream,
            opening=self._opening,
            recorder=recorder,
            is_stopped=lambda: self._wish() is not None,
        )
        self._perform: dict[Action, Callable[[], Awaitable[Input | None]]] = {
            Action.ASK_MODEL: self._ask_model,
            Action.ASK_APPROVAL: self._ask_approval,
            Action.RUN_TOOLS: self._run_tools,
            Action.SAVE_ROUND: self._save_round,
            Action.SAVE_ANSWER: self._save_answer,
            Action.SAVE_CANCELLED: self._save_cancelled,
            Action.SAVE_INTERRUPTED: self._save_interrupted,
            Action.LEAVE: self._leave,
            Action.REPORT_COMPLETE: self._report_complete,
            Action.REPORT_CANCELLED: self._report_cancelled,
            Action.REPORT_ERROR: self._report_error,
            Action.REPORT_SUSPENDED: self._report_suspended,
        }

    @property
    def committed(self) -> asyncio.Future[None]:
        """Done once the first event was sent; fails with the error of a turn that ended before."""
        return self._opening.committed

    @property
    def ended(self) -> asyncio.Task[Outcome]:
        """The task that ``start`` returned."""
        if self._task is None:
            raise RuntimeError("the turn was not started")
        return self._task

    def start(self) -> asyncio.Task[Outcome]:
        """Run the turn in a task of its own and return that task; it never raises."""
        self._task = asyncio.create_task(self._run(), name=f"turn-{self._job.turn_id}")
        return self._task

    def stop(self, reason: Input, error: MochiError | None = None) -> bool:
        """End the turn before its time; False when it is ending already."""
        if self.state in FINAL or self._stop is not None or self._task is None:
            return False
        self._stop = reason
        self._tools.queues.close()
        self.outcome.error = error
        self.outcome.stopped = self.running_now()
        if self._begun:  # a task that is cancelled before its first step would not even begin
            self._cancellation = Cancellation(self._task)
        return True

    def running_now(self) -> dict[str, Any]:
        """Tell what is running, for those who stop it: model, tools, agents; also of agents."""
        tools, agents = self._tools.names_of_running()
        running = {"upstream": self.state is State.GENERATING, "tools": tools, "agents": agents}
        for child in self._children:
            below = child.running_now()
            running["upstream"] = running["upstream"] or below["upstream"]
            tools += below["tools"]
        return running

    def notice_decision(self) -> None:
        """Look for answers to what the turn asks: somebody has decided something."""
        self._approver.notice()

    async def _run(self) -> Outcome:
        self._begun = True
        ready = Input.HISTORY_ENDS_OPEN if self._open_calls else Input.HISTORY_READY
        given: Input | None = self._wish() or ready
        try:
            from structlog.contextvars import bind_contextvars  # noqa: PLC0415 - loaded when warm

            bind_contextvars(session_id=self._job.session.session_id, turn_id=self._job.turn_id)
            while given is not None:
                self.state, actions = transition(self.state, given)
                if self._cancellation is not None and self.state in FINAL:
                    self._cancellation.end()  # what is saved now must not be disturbed
                given = await self._do(actions)
        except Exception:
            logger.exception("the turn could not be ended as the table says")
        if not self._stream.ended:
            await self._end_at_once()
        self.outcome.state = self.state
        rounds = self._caller.rounds
        logger.info("turn ended", extra={"state": self.state.value, "rounds": rounds})
        return self.outcome

    async def _do(self, actions: Sequence[Action]) -> Input | None:
        """Do what a state asks for, and tell what came of it; what stops the turn comes first."""
        given: Input | None = None
        try:
            for action in actions:
                if (wish := self._wish()) is not None:
                    return wish
                given = await self._perform[action]()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            given = Input.ERROR if self.state in FINAL else Input.SHUTDOWN
        except MochiError as error:
            given = self._fail(error)
        except Exception:
            logger.exception("the turn crashed")
            given = self._fail(TurnCrashed())
        return self._wish() or given

    def _wish(self) -> Input | None:
        """Return why the turn shall stop, while it can: its cancellation may have been swallowed.

        Any library on the way may do that: on Python 3.11 even ``asyncio.wait_for``.
        """
        return None if self.state in FINAL else self._stop

    def _fail(self, error: MochiError) -> Input:
        """Keep the error that ended the turn, not those that followed from ending it."""
        if self._wish() is None and self.outcome.error is None:
            self.outcome.error = error
        return Input.ERROR

    # The model

    async def _ask_model(self) -> Input:
        answer = self._round = Round(new_message_id(), self._tools.next_index)
        await self._caller.ask(answer)
        return self._next_step(answer)

    def _next_step(self, answer: Round) -> Input:
        script = self._job.script
        if not script.offers_tools():
            answer.calls.clear()  # made up: there were none to call
        if script.goes_on(asked_for_tools=bool(answer.calls)) and not answer.calls:
            return Input.ANSWERED_FOR_NOW
        if answer.is_empty:
            raise EmptyAnswer([tool.name for tool in self._job.available_tools.specs])
        return Input.ASKED_FOR_TOOLS if answer.calls else Input.ANSWERED

    # Tools

    async def _save_round(self) -> None:
        answer = self._current_round()
        self._open_calls, self._asking_id = answer.calls, answer.message_id
        saved = self._message(answer)
        await self._recorder.append(saved)
        self._round, self.outcome.message = None, saved

    async def _ask_approval(self) -> Input:
        self._opening.commit()
        self._stream.require_room()
        calls = self._tools.number(self._open_calls)
        if self._job.follows_settings:  # somebody may have changed them while the model answered
            self._approver.follow(self._recorder.session.metadata.tool_settings)
        try:
            self._decided_calls = await self._approver.decide(
                calls, message_id=self._asking_id, emit=self._stream.emit
            )
        except NobodyToAsk as nobody:
            self.outcome.confirmations = nobody.confirmations
            return Input.NOBODY_TO_ASK
        return Input.CALLS_DECIDED

    async def _run_tools(self) -> Input:
        calls, self._decided_calls, self._open_calls = self._decided_calls, (), ()
        running = self._tools.run(
            calls,
            self._calling_turn(),
            message_id=self._asking_id,
            note=self._stream.note,
            secure=self._secure,
        )
        try:
            async with aclosing(running) as outcomes:
                async for outcome in outcomes:
                    if self._wish() is not None:
                        raise asyncio.CancelledError
                    await self._recorder.append(outcome.message)
                    if outcome.is_shown:
                        self._stream.emit([outcome.event])
                    else:
                        payload = msgspec.to_builtins(outcome.event)
                        self._stream.note(outcome.event.event, payload)
                    self.outcome.tool_calls.append(outcome.record)
        except NobodyToAsk as nobody:
            self.outcome.confirmations = nobody.confirmations
            return Input.NOBODY_TO_ASK
        if self._caller.rounds >= self._job.max_rounds:
            self.outcome.error = TurnLimitReached(
                f"The model asked for tools in {self._caller.rounds} rounds; that is the limit.",
                limit=self._job.max_rounds,
            )
            return Input.ROUNDS_USED_UP
        self._stream.emit([ToolContinuationStarted()])
        return Input.TOOLS_RETURNED

    async def _secure(self, *, durable: bool) -> None:
        """Record which calls start, before they run (docs/decisions/0029)."""
        await self._stream.flushed()
        self._stream.require_room()
        if durable:
            await self._recorder.secure(self._stream.sync)

    def _calling_turn(self) -> CallingTurn:
        return CallingTurn(
            session=self._job.session,
            approver=self._approver,
            emit=self._stream.emit,
            queues=self._tools.queues,
            children=self._children,
            why_stopped=lambda: self.outcome.error,
        )

    # The end

    async def _save_answer(self) -> None:
        await self._finish(self._message(self._current_round()))

    async def _save_cancelled(self) -> None:
        self._opening.commit()
        if self._open_calls:  # their message was being saved, which a cancellation waits for
            self._round = None
        answer = self._round or Round(new_message_id())
        await self._approver.withdraw()
        given_up = self._tools.unanswered("The call was cancelled.", *self._open_calls)
        await self._recorder.append(*given_up)
        await self._finish(self._message(answer, cancelled=True))

    async def _save_interrupted(self) -> None:
        answer = self._round
        await self._recorder.append(*self._tools.unanswered(INTERRUPTED_CALL))
        partial = answer if answer is not None and answer.text else None
        await self._finish(self._message(partial, interrupted=True) if partial else None)

    async def _leave(self) -> None:
        """Leave claim and journal to be sealed by others, see docs/decisions/0028.

        With its writer gone, the journal shows everybody that the turn is over, whatever its claim
        says; it holds what clients saw, and which calls had started.
        """
        logger.error("what the turn left could not be saved; it is sealed as soon as it can be")
        self._stream.leave()

    async def _finish(self, message: AssistantMessage | None) -> None:
        """Save the last message and let go of the session: the next turn may start."""
        self.outcome.context_window = {
            "current_window": self._caller.window.window,
            "usage_tokens": tokens_of(message) if message else 0,
            "reason": self._caller.window.reason,
        }
        self.outcome.message = message
        await self._recorder.finish(message, self._caller.window)

    async def _report_complete(self) -> None:
        message = self.outcome.message
        if message is None:
            raise TurnCrashed
        self._opening.commit()
        await self._close(
            completed(
                message,
                turn_id=self._job.turn_id,
                context_window=self.outcome.context_window,
                tool_calls=self.outcome.tool_calls,
            )
        )

    async def _report_cancelled(self) -> None:
        message = self.outcome.message
        if message is None:
            raise TurnCrashed
        self._stream.note("stopped", self.outcome.stopped)
        answer = self._round
        await self._close(
            Cancelled(
                content=answer.text if answer else "",
                thinking=message.thinking,
                model=message.model,
                message_id=message.message_id,
            )
        )

    async def _report_error(self) -> None:
        error = self.outcome.error = self.outcome.error or TurnCrashed()
        if not self._opening.is_committed:
            self._opening.withdraw()
            # How else would a client know of a session that was made for this turn?
            error.details.setdefault("session_id", self._job.session.session_id)
            error.details.setdefault("message_saved", True)
            await self._stream.abandon()
            self._opening.refuse(error)
            return
        await self._close(failed(error))

    async def _report_suspended(self) -> None:
        self._stream.note("suspended", self.outcome.suspension())
        await self._recorder.finish(None, self._caller.window)
        await self._close()

    async def _close(self, *last: Event) -> None:
        await self._opening.finish([*last, Done(session_id=self._job.session.session_id)])

    async def _end_at_once(self) -> None:
        """End a turn after a defect of the table or of reporting: nobody may wait for ever."""
        self.state = State.UNSAVED
        error = self.outcome.error = self.outcome.error or TurnCrashed()
        self._stream.leave()
        try:
            if self._opening.is_committed:
                await self._close(failed(error))
        finally:
            self._stream.close()
            self._opening.refuse(error)

    def _current_round(self) -> Round:
        if self._round is None:
            raise TurnCrashed
        return self._round

    def _message(self, answer: Round, **how: bool) -> AssistantMessage:
        return answer.message(
            model=self._job.session.metadata.model, timestamp=self._recorder.now(), **how
        )
