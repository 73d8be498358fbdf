"""The registry of this worker's live turns: start, listen, cancel, drain."""

import asyncio
import secrets
import time
from dataclasses import dataclass
from functools import partial

from chat.engine import Outcome, TurnEngine
from chat.errors import NoActiveTurn, ShuttingDown, TooManyTurns, TurnLimitReached
from chat.journal import TurnJournal
from chat.preparation import TurnPreparer, TurnRequest
from chat.recording import SessionRecorder
from chat.stream import Subscription, TurnStream
from chat.tool_calls import ToolCallRunner
from chat.turn import Input, State
from sessions_app.identity import utc_now
from sessions_app.repository import SessionRepository
from sessions_app.session import Session


def new_turn_id(after: str = "") -> str:
    """Return a new id: twelve hex digits of milliseconds, eight of chance.

    Ids sort by time, and after ``after`` even when the clock was set back.
    """
    milliseconds = time.time_ns() // 1_000_000
    if after:
        milliseconds = max(milliseconds, int(after[:12], 16) + 1)
    return f"{milliseconds:012x}{secrets.token_hex(4)}"


@dataclass(slots=True, kw_only=True)
class LiveTurn:
    """A turn that runs in this worker, as its listeners see it."""

    turn_id: str
    session_id: str
    started_at: str
    detached: bool
    engine: TurnEngine
    stream: TurnStream
    first_subscription: Subscription
    task: asyncio.Task[Outcome]

    @property
    def state(self) -> State:
        """Where the turn is."""
        return self.engine.state

    async def committed(self) -> None:
        """Wait for the first event; raises the turn's error when it ended before that."""
        await asyncio.shield(self.engine.committed)

    async def finished(self) -> Outcome:
        """Wait for the end of the turn."""
        return await asyncio.shield(self.task)

    def leave(self, subscription: Subscription) -> None:
        """Stop listening. A turn that is not detached ends with its last listener."""
        subscription.close()
        if not self.detached and self.stream.subscriber_count == 0:
            self.engine.stop(Input.CANCEL_REQUESTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """How many turns may run at once, and how long each, in seconds."""

    active: int
    seconds: float


class TurnRegistry:
    """Starts turns and knows those that run in this worker, one a session."""

    def __init__(
        self,
        *,
        repository: SessionRepository,
        journal: TurnJournal,
        preparer: TurnPreparer,
        limits: TurnLimits,
    ) -> None:
        self._repository = repository
        self._journal = journal
        self._preparer = preparer
        self._limits = limits
        self._live: dict[str, LiveTurn] = {}
        self._starting: set[asyncio.Task[LiveTurn]] = set()
        self._closing = False

    @property
    def active_count(self) -> int:
        """How many turns run in this worker, those that are starting included."""
        return len(self._live) + len(self._starting)

    def get(self, session_id: str) -> LiveTurn | None:
        """Return the session's turn if it runs in this worker."""
        return self._live.get(session_id)

    async def start(self, session_id: str, request: TurnRequest) -> LiveTurn:
        """Claim the session and start a turn on it.

        When the caller is cancelled meanwhile, the turn is still started (its session may be
        claimed already) and stopped at once, unless it is detached.

        Raises:
            SessionNotFound, SessionCorrupt, SessionBusy: By the session.
            ShuttingDown, TooManyTurns: By this worker.
            NothingToContinue, ModelError, ToolNotFound: By the request (``TurnPreparer``).
        """
        if self._closing:
            raise ShuttingDown
        if self.active_count >= self._limits.active:
            raise TooManyTurns(self._limits.active)
        starting = asyncio.create_task(self._start(session_id, request))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_abandon)
            raise

    async def cancel(self, session_id: str) -> tuple[str, Outcome]:
        """Stop the session's turn and wait until it has ended.

        Returns:
            The turn's id and how it ended.

        Raises:
            SessionNotFound: There is no such session.
            NoActiveTurn: No turn runs, or it ended by itself just now.
        """
        turn = self._live.get(session_id)
        if turn is None:
            await asyncio.to_thread(self._repository.load, session_id)
            raise NoActiveTurn(session_id)
        turn.engine.stop(Input.CANCEL_REQUESTED)
        outcome = await turn.finished()
        if outcome.state is not State.CANCELLED:
            raise NoActiveTurn(session_id)
        return turn.turn_id, outcome

    async def shutdown(self, grace_seconds: float) -> None:
        """Refuse new turns, let live ones end within the grace time, then save and end them."""
        self._closing = True
        if self._starting:
            await asyncio.wait(set(self._starting))
        tasks = {turn.task for turn in self._live.values()}
        if tasks and grace_seconds > 0:
            await asyncio.wait(tasks, timeout=grace_seconds)
        for turn in list(self._live.values()):
            turn.engine.stop(Input.SHUTDOWN, ShuttingDown())
        pending = [task for task in tasks if not task.done()]
        if pending:
            await asyncio.wait(pending)

    async def _start(self, session_id: str, request: TurnRequest) -> LiveTurn:
        turn_id, session = await asyncio.to_thread(self._claim, session_id)
        try:
            job = await self._preparer.prepare(turn_id, session, request)
            writer = await asyncio.to_thread(self._journal.open, session_id, turn_id)
        except BaseException:
            await asyncio.to_thread(self._repository.release, session_id, turn_id)
            raise
        stream = TurnStream(
            turn_id,
            writer=writer,
            read_journal=partial(asyncio.to_thread, self._journal.read, session_id, turn_id),
            discard_journal=partial(asyncio.to_thread, self._journal.discard, session_id, turn_id),
        )
        engine = TurnEngine(
            job,
            stream=stream,
            recorder=SessionRecorder(self._repository, session=session, turn_id=turn_id),
            tools=ToolCallRunner(self._preparer.toolset),
        )
        subscription = stream.subscribe()
        turn = LiveTurn(
            turn_id=turn_id,
            session_id=session_id,
            started_at=utc_now(),
            detached=request.detached,
            engine=engine,
            stream=stream,
            first_subscription=subscription,
            task=engine.start(),
        )
        self._live[session_id] = turn
        limit = asyncio.get_running_loop().call_later(
            self._limits.seconds, engine.stop, Input.ERROR, _over_time(self._limits.seconds)
        )

        def ended(_: asyncio.Task[Outcome]) -> None:
            limit.cancel()
            if self._live.get(session_id) is turn:
                del self._live[session_id]

        turn.task.add_done_callback(ended)
        return turn

    def _claim(self, session_id: str) -> tuple[str, Session]:
        turns = self._journal.turns(session_id)
        turn_id = new_turn_id(after=turns[-1] if turns else "")
        return turn_id, self._repository.claim(session_id, turn_id)


def _over_time(seconds: float) -> TurnLimitReached:
    return TurnLimitReached(f"The turn took longer than {seconds:g} seconds.", seconds=seconds)


def _abandon(starting: asyncio.Task[LiveTurn]) -> None:
    """Leave a turn whose client had gone before it was started."""
    if not starting.cancelled() and starting.exception() is None:
        turn = starting.result()
        turn.leave(turn.first_subscription)
