"""Keeps the live turns of this process: start, listen, cancel, drain."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from chat.approvals.store import ConfirmationStore
from chat.errors import NoActiveTurn, ShuttingDown, TurnLost
from chat.live_turn import LiveTurn, abandon
from chat.remote.recovery import TurnRecovery
from chat.remote.remote_turns import ActiveTurn, CancelReport, RemoteTurns
from chat.resumer import TurnResumer
from chat.start.answered_questions import AnsweredQuestions
from chat.start.claiming import ClaimedTurn, TurnClaimer
from chat.start.engines import build_engine
from chat.start.inbox_drain import InboxDrain
from chat.start.preparation import ChatPreparation, TurnPreparer
from chat.start.queued_messages import QueuedPreparation
from chat.start.resuming import TurnTakeover
from chat.start.turn_limits import TurnPlaces, call_at_end, client_of_owner
from chat.start.turn_request import TurnRequest, admitted
from chat.storage.journal import TurnJournal
from chat.storage.signal_inbox import SignalInbox
from chat.storage.signals import SignalKind, Signals
from chat.stream.numbered_event import Listener
from chat.turn.observer import TURN_LOG, TurnObserver
from chat.turn.outcome import Outcome
from chat.turn.state_machine import Input, State
from chat.turn.turn_ids import started_at
from chat.work_threads import InThread
from mochi_project.keys.ring import WhenEnded
from mochi_project.principal import acting_for
from sessions_app.deadline import END_SECONDS, NEVER, Deadline
from sessions_app.errors import MochiError
from sessions_app.session import Session
from sessions_app.store.repository import SessionRepository

logger = logging.getLogger(__name__)


_LEFT_STATES = frozenset({State.SUSPENDED, State.UNSAVED, State.LOST, State.HANDED_OVER})
"""The ends after which something of the turn is still to come."""

LOOK_SECONDS = 0.2
"""The interval at which a process that stops looks which turns it can hand over."""


class TurnRegistry:
    """Starts turns and knows those that run in this process, one a session.

    ``on_answer`` is called with the session of every final answer, once it is on disk; without it
    no summary is noted down as due.

    ``places`` are shared by registries of several storages.

    ``forget`` is called in a thread, with a session that shall not be kept, once its turn has ended
    and nobody listens to it any more; it raises nothing. Without it, sessions stay.
    """

    def __init__(
        self,
        *,
        repository: SessionRepository,
        journal: TurnJournal,
        preparer: TurnPreparer,
        places: TurnPlaces,
        recovery: TurnRecovery,
        signals: Signals,
        remote: RemoteTurns,
        confirmation_store: ConfirmationStore,
        on_answer: Callable[[str], None] | None = None,
        forget: Callable[[str], None] | None = None,
        observer: TurnObserver = TURN_LOG,
        in_thread: InThread = asyncio.to_thread,
        deadline: Deadline = NEVER,
        when_key_ends: WhenEnded = lambda *_: lambda: None,
    ) -> None:
        self._build = partial(build_engine, preparer, confirmation_store, observer)
        self._deadline, self._when_key_ends = deadline, when_key_ends
        self._on_answer = on_answer
        self._preparer, self._places = preparer, places
        self._forget, self._in_thread = forget, in_thread
        self._remote = remote
        self._inbox = SignalInbox(signals, self._obey)
        self._claimer = TurnClaimer(
            repository=repository,
            journal=journal,
            recovery=recovery,
            confirmation_store=confirmation_store,
            expect=self._inbox.expect,
            forget=self._inbox.forget,
            wants_summaries=on_answer is not None,
            saves=forget is None,
            in_thread=in_thread,
            renew_attachments=preparer.renew_attachments,
        )
        takeover = TurnTakeover(
            repository, journal, recovery, preparer, signals, on_answer is not None, in_thread
        )
        self._resumer = TurnResumer(takeover, self._places, self._run, in_thread)
        prepare = partial(QueuedPreparation, preparer, AnsweredQuestions(confirmation_store))
        self._drain = InboxDrain(self._start_next, prepare, repository, recovery, in_thread)
        self._live = dict[str, LiveTurn]()
        self._starting, self._closing = set[asyncio.Task[LiveTurn]](), False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lost_owners, self._settling = set[str](), set[asyncio.Future[None]]()
        self._forget_lost = repository.owners.when_condemned(self._lose)

    @property
    def active_count(self) -> int:
        """The number of turns in this process, those that are starting included."""
        return len(self._live) + len(self._starting)

    @property
    def listener_count(self) -> int:
        """The number of those who listen to turns in this process."""
        return sum(turn.stream.subscriber_count for turn in self._live.values())

    @property
    def is_busy(self) -> bool:
        """Return whether turns run, end, are looked for or waited for in this process."""
        waits = self._resumer.is_busy or self._drain.is_busy
        return bool(self.active_count or self._settling or waits)

    def get(self, session_id: str) -> LiveTurn | None:
        """Return the session's turn if it runs in this process."""
        turn = self._live.get(session_id)
        return turn if turn is not None and not turn.state.is_final else None

    async def start(
        self,
        session_id: str,
        request: TurnRequest,
        *,
        announce: Callable[[str], None] = lambda _: None,
        client: str | None = None,
        new: Session | None = None,
        model: str | None = None,
        keep: bool = False,
    ) -> LiveTurn:
        """Claim the session and start a turn on it; ``announce`` is called with its id.

        A ``new`` session is made by this, or not at all if the turn can't begin. Another ``model``
        than the session's refuses the turn. ``keep`` leaves a session that is not saved until its
        journals are swept; else it goes with the turn's last listener.

        When the caller is cancelled meanwhile, the turn is still started (its session may be
        claimed already) and stopped at once, unless it is detached.

        Raises:
            SessionNotFound, SessionCorrupt, SessionBusy, SessionExists: By the session.
            ScopeMissing: By what it asks for (``admitted``).
            ShuttingDown, TooManyTurns: By this process (of which ``client`` may take a part).
            MochiError: By the request (``ChatPreparation``), and by its decisions.
        """
        preparation = ChatPreparation(self._preparer, admitted(request), model)
        start = partial(self._start, session_id, preparation, announce, new, keep)
        return await self._place(start, client)

    async def _start_next(self, session_id: str, preparation: QueuedPreparation) -> None:
        """Start a turn for the next message of a session's inbox.

        Raises:
            NothingQueued: None waits, or none may be taken.
            MochiError: As ``start``.
        """
        start = partial(self._start, session_id, preparation)
        turn = await self._place(start, client_of_owner())
        turn.first_subscription.close()

    def answer_waiting(self, session_id: str) -> None:
        """Start a turn for a message in the session's inbox soon, if it is idle; in any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._drain.begin, session_id)

    async def _place(
        self, start: Callable[[], Coroutine[Any, Any, LiveTurn]], client: str | None
    ) -> LiveTurn:
        """Start a turn in one of the places of this process."""
        if self._closing or self._deadline.is_set:  # this owner may have been loaded since
            raise ShuttingDown
        leave = self._places.take(client)
        starting = asyncio.create_task(start())
        starting.add_done_callback(partial(call_at_end, leave))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(abandon)
            raise

    async def tell(self, session_id: str, turn_id: str, kind: SignalKind) -> None:
        """Signal something to a turn, in whichever process it runs, and do not wait for it."""
        turn = self.get(session_id)
        if turn is not None and turn.turn_id == turn_id:
            self._obey(turn_id, kind)
        else:
            await self._remote.tell(turn_id, kind)

    async def cancel(self, session_id: str, turn_id: str | None = None) -> CancelReport:
        """Stop the session's turn, in whichever process it runs, and wait until it has ended.

        Args:
            session_id: The session.
            turn_id: The turn that is meant; None for whichever runs.

        Raises:
            SessionNotFound: There is no such session.
            NoActiveTurn: No turn runs, or it ended by itself just now.
        """
        turn = self.get(session_id)
        if turn is None:
            return await self._remote.cancel(session_id, turn_id)
        if turn_id not in (None, turn.turn_id):
            raise NoActiveTurn(session_id)
        return await turn.cancel()

    async def attach(self, session_id: str, position: tuple[str, int] | None) -> Listener | None:
        """Listen to the session's running or last turn from an event on; None: nothing is left.

        The turn goes on when its listeners leave, as if it had been started detached.

        Args:
            session_id: The session.
            position: The turn and the number of the last event that the listener has.

        Raises:
            SessionNotFound: There is no such session.
            EventNotReached: The turn runs and has no such event yet.
        """
        turn = self.get(session_id)
        if turn is None:
            return await self._remote.follow(session_id, position)
        turn.detach()
        try:
            await turn.committed()
        except MochiError:  # its starter gets it; the turn before is the last one again
            return await self._remote.follow(session_id, position)
        return turn.listen(position)

    async def listen(self, session_id: str, turn_id: str) -> Listener | None:
        """Listen to a certain turn from its first event on; None: its events are not there.

        The turn goes on when its listeners leave, as if it had been started detached.

        Raises:
            SessionNotFound: There is no such session.
            MochiError: The turn ended before its first event.
        """
        turn = self.get(session_id)
        if turn is None or turn.turn_id != turn_id:
            return await self._remote.listen(session_id, turn_id)
        turn.detach()
        await turn.committed()
        return turn.stream.subscribe(after=0)

    async def active(self, session_id: str) -> ActiveTurn | None:
        """Return the turn that runs on the session, in any process, and its state."""
        turn = self.get(session_id)
        if turn is not None:
            return turn.describe()
        claim = await self._remote.running(session_id)
        return await self._remote.describe(claim) if claim else None

    def notice_decision(self, turn_id: str) -> bool:
        """Let a turn of this process look for answers to what it asks; False: it is not here."""
        return self._obey(turn_id, "confirm")

    def go_on(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Go on with turns of dead processes, and with inboxes, by default in the running loop."""
        self._loop = loop or asyncio.get_running_loop()
        self._resumer.open(self._loop)

    async def shutdown(self, grace_seconds: float) -> None:
        """Refuse turns that have no claim yet, let others end in the grace time, then end them.

        Those with which another process goes on are handed over instead (docs/decisions/0182).
        """
        self._closing = True
        self._drain.close()
        self._claimer.close()
        self._resumer.close()
        await self._all_ended(self._deadline.within(grace_seconds), LiveTurn.let_go)
        await self._all_ended(END_SECONDS, LiveTurn.shut_down)
        if self.active_count:
            logger.error("%d turns can't be ended; the next start ends them", self.active_count)
        self._inbox.close()
        self._forget_lost()

    async def _all_ended(self, seconds: float, stop: Callable[[LiveTurn], None]) -> None:
        """Stop each turn, again and again, until none runs or starts, or the time is over."""
        end = time.monotonic() + seconds
        live = self._live.values()
        resuming = self._resumer.tasks.values()
        begun: Sequence[Iterable[asyncio.Future[Any]]] = (self._starting, self._settling, resuming)
        while tasks := {*chain(*begun), *(turn.task for turn in live)}:
            for turn in live:
                stop(turn)
            if (left := end - time.monotonic()) <= 0:
                return
            pause = min(left, LOOK_SECONDS)
            await asyncio.wait(tasks, timeout=pause, return_when=asyncio.FIRST_COMPLETED)

    async def _start(
        self,
        session_id: str,
        preparation: ChatPreparation | QueuedPreparation,
        announce: Callable[[str], None] = lambda _: None,
        new: Session | None = None,
        keep: bool = False,
    ) -> LiveTurn:
        claimed = await self._claimer.claim(session_id, preparation, announce=announce, new=new)
        return self._run(claimed, preparation.request, keep=keep)

    def _run(self, claimed: ClaimedTurn, request: TurnRequest, *, keep: bool = True) -> LiveTurn:
        """Run a claimed turn, and note how other processes can go on with it, if they may."""
        self._inbox.open()
        self._loop = asyncio.get_running_loop()
        job, seconds = claimed.job, self._places.seconds
        session_id = job.session.session_id
        noted = self._resumer.takeover.noted(request, job.session)
        if job.resumed is not None:
            self._inbox.expect(job.turn_id)
            seconds -= time.time() - started_at(job.turn_id)
        elif noted is not None and noted.is_wanted:
            claimed.stream.note(noted)
        with acting_for(request.principal):
            turn = LiveTurn(
                self._build(claimed, request),
                claimed.stream,
                owner=claimed.owner,
                detached=request.detached or (noted is not None and noted.detached),
                keep=keep,
                noted=noted,
            )
        self._live[session_id] = turn
        turn.end_within(seconds, self._places.seconds)
        turn.end_with_key(request.key_id, self._when_key_ends)
        turn.task.add_done_callback(partial(self._ended, turn))
        self._inbox.ready(turn.turn_id)
        self._stop_lost()  # while it was starting, perhaps
        return turn

    def _lose(self, owner: str) -> None:
        """End the turns of an id of this process that others gave up; called in any thread.

        They save and say nothing more. The process goes on, with another id.
        """
        self._lost_owners.add(owner)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop_lost)

    def _stop_lost(self) -> None:
        if self._lost_owners:
            for turn in self._live.values():
                if turn.owner in self._lost_owners:
                    turn.engine.stop(Input.LOST, TurnLost())

    def _ended(self, turn: LiveTurn, _: asyncio.Task[Outcome]) -> None:
        self._inbox.forget(turn.turn_id)
        if self._live.get(turn.session_id) is turn:
            del self._live[turn.session_id]
        if turn.state is State.LOST:  # nobody else may know of it: a claim can come too late
            self._settle(self._remote.settle(turn.session_id))
        # An answer may have come while it was suspended.
        if turn.engine.actions.session_writer.has_next or turn.state is State.SUSPENDED:
            self._drain.begin(turn.session_id)
        if self._on_answer is not None and turn.engine.outcome.has_answer:
            self._on_answer(turn.session_id)
        # What waits for an approval can be resumed, what could not be saved is sealed first.
        if self._forget is not None and turn.state not in _LEFT_STATES:
            turn.stream.when_left(partial(self._left, turn, self._forget))

    def _left(self, turn: LiveTurn, forget: Callable[[str], None]) -> None:
        """Remove the session of a turn that nobody listens to any more, unless it is kept."""
        if not turn.keep or turn.was_refused:
            self._settle(self._in_thread(partial(forget, turn.session_id)))

    def _settle(self, work: Awaitable[None]) -> None:
        """Do what is left to do after a turn, which raises nothing."""
        settling = asyncio.ensure_future(work)
        self._settling.add(settling)
        settling.add_done_callback(self._settling.discard)

    def _obey(self, turn_id: str, kind: str) -> bool:
        """Do what another process asks of a turn of this one; False: it is not here."""
        for turn in self._live.values():
            if turn.turn_id == turn_id:
                turn.obey(kind)
                return True
        return False
