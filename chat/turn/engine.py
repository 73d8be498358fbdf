"""Drives a turn through the table of ``state_machine.py``, and stops it."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from chat.approvals.approver import Approver
from chat.errors import ShuttingDown, TurnCrashed, TurnLost
from chat.stream.events import MessageQueued, TurnStarted
from chat.stream.turn_stream import TurnStream
from chat.turn.actions import TurnActions
from chat.turn.job import TurnJob
from chat.turn.observer import TURN_LOG, TurnEnd, TurnObserver, TurnStart
from chat.turn.outcome import Outcome, failed
from chat.turn.session_writer import SessionWriter
from chat.turn.state_machine import Action, Input, State, TurnMachine
from chat.turn.tool_calls import ToolCallRunner
from models_app.model_calls import call_models_for
from sessions_app.errors import MochiError

logger = logging.getLogger(__name__)

INSIST_SECONDS = 5.0
"""The time after which a task that still runs is cancelled again."""


class TurnEngine:
    """Runs one turn, from the claimed session to the last event.

    Performs the actions of the table and feeds their results back; stop requests have priority.

    Attributes:
        outcome: The outcome of the turn, filled while it runs.
        actions: The actions of the turn.
    """

    def __init__(
        self,
        job: TurnJob,
        *,
        stream: TurnStream,
        session_writer: SessionWriter,
        tools: ToolCallRunner,
        approver: Approver,
        observer: TurnObserver = TURN_LOG,
    ) -> None:
        resumed = job.resumed
        self._machine = TurnMachine(job.tool_limits.rounds, resumed.rounds if resumed else 0)
        self._start = TurnStart(
            session_id=job.session.session_id,
            turn_id=job.turn_id,
            model=job.session.metadata.model,
            purpose=job.purpose,
            agent=job.agent,
            dialect=job.dialect,
            said=job.messages,
        )
        self._job = job
        self._stream = stream
        self._tools = tools
        self._observer = observer
        self._begun = False
        self._task: asyncio.Task[Outcome] | None = None
        self._insisting: asyncio.TimerHandle | None = None
        self.actions = TurnActions(
            job,
            stream=stream,
            session_writer=session_writer,
            tools=tools,
            approver=approver,
            machine=self._machine,
        )
        self.outcome = self.actions.outcome
        stream.when_failed(self._stop_unjournalled)

    @property
    def state(self) -> State:
        """Return the state of the turn."""
        return self._machine.state

    @property
    def committed(self) -> asyncio.Future[None]:
        """Done once the first event was sent; fails with the error of a turn that ended before."""
        return self.actions.commit_point.committed

    @property
    def first_message_id(self) -> str | None:
        """The id of the user message that the turn answers, or of its first answer."""
        event = self.actions.commit_point.first_event
        if isinstance(event, TurnStarted):
            return event.first_message_id
        return self._job.resumed.first_message_id if self._job.resumed else None

    @property
    def resumes(self) -> int:
        """The number of times that the turn went on in another process."""
        return self._job.resumed.attempt if self._job.resumed is not None else 0

    @property
    def ended(self) -> asyncio.Task[Outcome]:
        """The task that ``start`` returned."""
        if self._task is None:
            raise RuntimeError("the turn was not started")
        return self._task

    def start(self) -> asyncio.Task[Outcome]:
        """Start the turn in a task and return the task, which never raises."""
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(), name=f"turn-{self._job.turn_id}")
        return self._task

    def stop(self, reason: Input, error: MochiError | None = None) -> bool:
        """Stop the turn; return False if it is ending already."""
        if self.state.is_final or self._machine.stop is not None or self._task is None:
            return False
        self._machine.stop = reason
        self._stream.take_no_more()
        self._tools.queues.close()
        self.outcome.error = error
        self.outcome.stopped = self.running_now()
        if self._begun:  # a task that is cancelled before its first step would not even begin
            self._insist(self._task)
        return True

    def _insist(self, task: asyncio.Task[Outcome]) -> None:
        """Cancel the task now and every few seconds, until it is done or saves its end.

        On Python 3.11, even ``asyncio.wait_for`` swallows a cancellation that arrives just when its
        awaitable is done.
        """
        if not task.done():
            task.cancel()
            again = task.get_loop().call_later(INSIST_SECONDS, self._insist, task)
            self._insisting = again

    def stop_unheard(self) -> None:
        """Cancel the turn as nobody listens any more; messages that wait are answered then."""
        if self.stop(Input.CANCEL_REQUESTED):
            self.actions.session_writer.pauses = False

    def cancel(self) -> None:
        """Cancel the turn for a person, also while it is stopped as nobody listens."""
        self.actions.session_writer.pauses = True
        self.stop(Input.CANCEL_REQUESTED)

    def let_go(self) -> None:
        """Hand the turn over before its next round, or now if it waits for an approval."""
        self._machine.lets_go = True
        if self.actions.approver.is_waiting:
            self.stop(Input.HAND_OVER, ShuttingDown())

    def _stop_unjournalled(self, error: MochiError) -> None:
        self.stop(Input.LOST if isinstance(error, TurnLost) else Input.ERROR, error)

    def running_now(self) -> dict[str, Any]:
        """Return the running operations, including those of agents' turns: model, tools, agents."""
        tools, agents = self._tools.names_of_running()
        running = {"upstream": self.state.asks_model, "tools": tools, "agents": agents}
        for child in self.actions.children:
            below = child()
            running["upstream"] = running["upstream"] or below["upstream"]
            tools += below["tools"]
        return running

    def report(self, event: MessageQueued) -> None:
        """Send an event that is not the turn's own doing, between its first and its last one."""
        if self.actions.commit_point.is_committed and not self.state.is_final:
            self._stream.emit([event])

    async def _run(self) -> Outcome:
        self._begun = True
        started = time.perf_counter()
        given: Input | None = self._machine.stopping or self._first_input()
        try:
            from structlog.contextvars import bind_contextvars  # noqa: PLC0415 - loaded when warm

            call_models_for(self._start.session_id, self._start.turn_id)
            bind_contextvars(session_id=self._start.session_id, turn_id=self._start.turn_id)
            self._observer.turn_started(self._start)
            if self._job.resumed is not None and self._job.resumed.last_number:
                self.actions.commit_point.commit(self._job.resumed.taken)  # clients know the turn
            while given is not None:
                actions = self._machine.take(given)
                if self._insisting is not None and self.state.is_final:
                    self._insisting.cancel()  # what is saved now must not be disturbed
                    self._insisting = None
                given = await self._do(actions)
        except Exception:
            logger.exception("the turn could not be ended by its state machine")
        if not self._stream.ended:
            await self._end_at_once()
        self.outcome.state = self.state
        error = self.outcome.error
        self._observer.turn_ended(
            TurnEnd(
                start=self._start,
                state=self.state,
                error_code=error.code if error else None,
                rounds=self._machine.rounds,
                tool_calls=len(self.outcome.tool_calls),
                seconds=time.perf_counter() - started,
                answer=self.outcome.message,
                usage=self.outcome.usage,
            )
        )
        return self.outcome

    def _first_input(self) -> Input:
        if self._job.resumed is not None and self._job.resumed.begun is not None:
            return Input.ANSWER_BEGUN
        if self._job.continuation.open_calls:
            return Input.HISTORY_ENDS_OPEN
        return Input.HISTORY_READY if self._job.phases is None else Input.PLAN_WANTED

    async def _do(self, actions: Sequence[Action]) -> Input | None:
        """Perform actions and return the next input; a stop request has priority."""
        given: Input | None = None
        try:
            for action in actions:
                if (stopping := self._machine.stopping) is not None:
                    return stopping
                given = await self.actions.perform(action)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            given = Input.SHUTDOWN
        except TurnLost as error:
            logger.warning("the turn was taken from this process")
            self.outcome.error = error
            return Input.LOST
        except MochiError as error:
            given = self._fail(error)
        except Exception:
            logger.exception("the turn crashed")
            given = self._fail(TurnCrashed())
        return self._machine.stopping or given

    def _fail(self, error: MochiError) -> Input:
        """Keep the error that ended the turn, but not errors that follow from it."""
        if self._machine.stopping is None and self.outcome.error is None:
            self.outcome.error = error
        return Input.ERROR

    async def _end_at_once(self) -> None:
        """End a turn after an unexpected error, so that no listener waits forever."""
        self._machine.give_up()
        error = self.outcome.error = self.outcome.error or TurnCrashed()
        self._stream.leave()
        try:
            if self.actions.commit_point.is_committed:
                await self.actions.close(failed(error, self.actions.count()))
        finally:
            self._stream.close()
            self.actions.commit_point.refuse(error)
