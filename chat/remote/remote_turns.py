"""Reaches turns of other processes: finds them by claim and journal, and sends them signals."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from chat.errors import EventNotReached, NoActiveTurn
from chat.remote.journal_follower import LIVENESS_SECONDS, JournalFollower
from chat.remote.outcome import outcome_of
from chat.remote.recovery import TurnRecovery
from chat.remote.replay import ReplayedTurn, replay
from chat.storage.journal import TurnJournal, whole_journal
from chat.storage.signals import SignalKind, Signals
from chat.stream.events import Cancelled
from chat.stream.notes import Resumed, Stopped
from chat.stream.numbered_event import NumberedEvent, numbered_events
from chat.turn.outcome import Outcome
from chat.turn.state_machine import State
from sessions_app.errors import MochiError, SessionError, SessionNotFound
from sessions_app.store.repository import Claim, SessionRepository

logger = logging.getLogger(__name__)

RESUMING = "resuming"
"""The state of a turn whose process died, until it goes on in another one."""

DETACH_SECONDS = 1.0
DETACH_POLL_SECONDS = 0.005


class CancelReport(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a cancelled turn so far, and what was running when it was stopped."""

    turn_id: str
    partial_content: str
    stopped: Mapping[str, Any]


class ActiveTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A running turn, wherever it runs.

    Attributes:
        turn_id: The turn.
        state: What it does.
        started_at: When it began.
        first_message_id: The user message that it answers, or else its first answer; None where
            its first event is not written yet.
        resumes: How often it went on in another process.
    """

    turn_id: str
    state: str
    started_at: str
    first_message_id: str | None = None
    resumes: int = 0


class RemoteTurns:
    """Reaches turns through what they leave for other processes.

    Args:
        repository: The sessions.
        journal: The journals of their turns.
        recovery: Seals what dead turns left.
        signals: The signals to turns.
        settle_seconds: After which silence a listener asks whether its turn still runs. Where every
            process seals dead turns each second, their end is heard of before that.
    """

    def __init__(
        self,
        *,
        repository: SessionRepository,
        journal: TurnJournal,
        recovery: TurnRecovery,
        signals: Signals,
        settle_seconds: float = LIVENESS_SECONDS,
    ) -> None:
        self._repository = repository
        self._journal = journal
        self._recovery = recovery
        self._signals = signals
        self._settle_seconds = settle_seconds

    async def running(self, session_id: str) -> Claim | None:
        """Return the claim of the session's running turn; a dead one is sealed first.

        Raises:
            SessionNotFound: There is no such session.
        """
        return await asyncio.to_thread(self._running, session_id)

    def is_writing(self, session_id: str, turn_id: str) -> bool:
        """Return whether a turn begins, runs or ends, in any process. Blocks."""
        if self._journal.is_being_written(session_id, turn_id):
            return True
        claim = self._repository.claim_of(session_id)  # it may have no journal yet
        return claim is not None and claim.alive and claim.turn_id == turn_id

    def is_claiming(self, session_id: str, turn_id: str) -> bool:
        """Return whether a turn may not be in its session yet, which it has claimed. Blocks.

        Its journal is opened after that (docs/decisions/0177).
        """
        claim = self._repository.claim_of(session_id)
        is_alive = claim is not None and claim.alive and claim.turn_id == turn_id != ""
        return is_alive and not self._journal.is_being_written(session_id, turn_id)

    async def tell(self, turn_id: str, kind: SignalKind) -> None:
        """Send a signal to a turn of another process."""
        await asyncio.to_thread(self._signals.send, turn_id, kind)

    async def settle(self, session_id: str) -> None:
        """Seal what dead turns of the session left, if that can be done now."""
        await asyncio.to_thread(self._seal, session_id)

    async def describe(self, claim: Claim) -> ActiveTurn:
        """Return the state of another process's turn, from its journal."""
        turn = await asyncio.to_thread(self._replay, claim)
        state: str = State.STARTING
        if turn.is_resuming or not claim.alive:
            state = RESUMING
        elif turn.asked and not turn.started_calls:
            state = State.AWAITING_CONFIRMATION
        elif turn.last_number:
            state = State.RUNNING_TOOLS if turn.started_calls else State.GENERATING
        return ActiveTurn(
            turn_id=claim.turn_id,
            state=str(state),
            started_at=claim.started_at,
            resumes=turn.resumes,
            first_message_id=turn.started.first_message_id,
        )

    async def cancel(self, session_id: str, turn_id: str | None = None) -> CancelReport:
        """Ask the owner of the session's turn to stop it, and wait until it has.

        Args:
            session_id: The session.
            turn_id: The turn that is meant; None for whichever runs.

        Raises:
            SessionNotFound: There is no such session.
            NoActiveTurn: No turn runs, or it ended by itself just now.
        """
        claim = await self.running(session_id)
        if claim is None or not claim.turn_id:  # a newer server's, which can't be reached
            raise NoActiveTurn(session_id)
        if turn_id not in (None, claim.turn_id):
            raise NoActiveTurn(session_id)
        send = partial(self._signals.send, claim.turn_id, "cancel")
        await asyncio.to_thread(send)
        # Once more to who goes on with it: an owner that was given up may have taken the first one.
        turn = await self._read_to_end(session_id, claim.turn_id, when_resumed=send)
        # Not when our caller left meanwhile: others may count on the same signal.
        await asyncio.to_thread(self._signals.withdraw, claim.turn_id, "cancel")
        if not isinstance(turn.ending, Cancelled):
            raise NoActiveTurn(session_id)
        # Without the note, where the journal was taken from who stopped it: that is all it lost.
        stopped = turn.stopped or Stopped(upstream=False, tools=(), agents=())
        return CancelReport(
            turn_id=claim.turn_id,
            partial_content=turn.ending.content,
            stopped=msgspec.to_builtins(stopped),
        )

    async def follow(
        self, session_id: str, position: tuple[str, int] | None
    ) -> JournalFollower | None:
        """Listen to the session's running or last turn; None when nothing is left to send.

        Args:
            session_id: The session.
            position: The turn and the number of the last event that the listener has. A position
                in another turn counts as none.

        Raises:
            SessionNotFound: There is no such session.
            EventNotReached: The turn runs and has no such event yet.
        """
        while True:
            claim = await self.running(session_id)
            if claim is not None and claim.turn_id:
                turn_id, goes_on = claim.turn_id, True
                await self._detach(turn_id)
            else:
                turns = await asyncio.to_thread(self._journal.turns, session_id)
                if not turns:
                    return None
                turn_id = turns[-1]
                if position is not None and position[0] > turn_id:
                    return None  # messages of its turn were deleted, and its journal with them
                goes_on = await asyncio.to_thread(self._goes_on, session_id, turn_id)
            after = position[1] if position is not None and position[0] == turn_id else 0
            last_number = await asyncio.to_thread(self._last_number, session_id, turn_id)
            if after > last_number:
                await self._require_end(session_id, turn_id, after, last_number)
                return None
            is_last = 0 < after == last_number and not goes_on
            if is_last and await asyncio.to_thread(self._journal.has_ended, session_id, turn_id):
                return None
            follower = self._follow(session_id, turn_id, after)
            if await _has_begun(follower):
                return follower
            # It was refused, and the turn before it is the last one again.

    async def listen(self, session_id: str, turn_id: str) -> JournalFollower | None:
        """Listen to a certain turn once it has its first event; it goes on without its client.

        None when there is no trace of it, or it was refused and had no event.

        Raises:
            SessionNotFound: The turn's session is not there now (a volume that is not mounted).
                One that was deleted has taken its journals with it: then there is no trace.
        """
        try:
            claim = await self.running(session_id)
        except SessionNotFound:
            if turn_id in await asyncio.to_thread(self._journal.turns, session_id):
                raise
            return None
        runs = claim is not None and claim.turn_id == turn_id
        if not runs and turn_id not in await asyncio.to_thread(self._journal.turns, session_id):
            return None
        if runs:
            await self._detach(turn_id)
        follower = self._follow(session_id, turn_id, after=0)
        return follower if await _has_begun(follower) else None

    async def events(self, session_id: str, turn_id: str) -> Sequence[NumberedEvent] | None:
        """Return the events of a turn so far; all of them if it runs no more.

        None when its journal was swept, or there never was such a turn.

        Raises:
            SessionNotFound: There is no such session.
        """
        await self.running(session_id)  # seals a turn whose process died
        return await asyncio.to_thread(self._events, session_id, turn_id)

    async def outcome(self, session_id: str, turn_id: str) -> Outcome:
        """Wait for the end of a turn of another process and return how it ended."""
        turn = await self._read_to_end(session_id, turn_id)
        session = await asyncio.to_thread(self._repository.load, session_id)
        return outcome_of(turn, session)

    async def _read_to_end(
        self, session_id: str, turn_id: str, when_resumed: Callable[[], object] | None = None
    ) -> ReplayedTurn:
        """Wait for the end of a turn and return it.

        Args:
            session_id: The session.
            turn_id: Its turn.
            when_resumed: Called in a thread each time that a process goes on with the turn.
        """
        follower = self._follow(session_id, turn_id, after=0)
        turn = ReplayedTurn()
        try:
            while (entries := await follower.next_entries()) is not None:
                for entry in entries:
                    turn.add(entry)
                    if when_resumed is not None and entry.event == Resumed.event:
                        await asyncio.to_thread(when_resumed)
        finally:
            follower.close()
        return turn

    def _replay(self, claim: Claim) -> ReplayedTurn:
        return replay(whole_journal(self._journal, claim.session_id, claim.turn_id))

    def _events(self, session_id: str, turn_id: str) -> Sequence[NumberedEvent] | None:
        if turn_id not in self._journal.turns(session_id):
            return None
        return numbered_events(whole_journal(self._journal, session_id, turn_id), after=0)

    async def _require_end(
        self, session_id: str, turn_id: str, after: int, last_number: int
    ) -> None:
        """Make sure that a turn whose journal has no event ``after`` runs no more.

        Raises:
            EventNotReached: It runs. A journal without any event may have been lost, and one that
                has ended may lack its last events: of these there is nothing left to send.
        """
        if last_number and await asyncio.to_thread(self._goes_on, session_id, turn_id):
            raise EventNotReached(after, last_number)

    def _last_number(self, session_id: str, turn_id: str) -> int:
        entries = whole_journal(self._journal, session_id, turn_id)
        return max((entry.n for entry in entries), default=0)

    def _follow(self, session_id: str, turn_id: str, after: int) -> JournalFollower:
        async def goes_on() -> bool:
            try:
                return await asyncio.to_thread(self._goes_on, session_id, turn_id)
            except SessionNotFound:  # deleted meanwhile, and its journal with it
                return False

        return JournalFollower(
            session_id=session_id,
            turn_id=turn_id,
            after=after,
            journal=self._journal,
            settle=goes_on,
            settle_seconds=self._settle_seconds,
        )

    async def _detach(self, turn_id: str) -> None:
        """Let the turn go on without its first client; when it knows, that client may leave."""
        await asyncio.to_thread(self._signals.send, turn_id, "detach")
        deadline = asyncio.get_running_loop().time() + DETACH_SECONDS
        while await asyncio.to_thread(self._signals.is_waiting, turn_id, "detach"):
            if asyncio.get_running_loop().time() > deadline:
                return  # it is ending, or its worker is very busy
            await asyncio.sleep(DETACH_POLL_SECONDS)

    def _goes_on(self, session_id: str, turn_id: str) -> bool:
        """Return whether more of the turn is to come; end its journal where its owner is dead.

        Asked again and again by every listener, so it reads no session while its turn runs: its
        journal is open from just after the claim until the turn has ended.
        """
        if self._journal.is_being_written(session_id, turn_id):
            return True
        if self._journal.has_ended(session_id, turn_id):
            return False
        claim = self._repository.claim_of(session_id)
        if claim is not None and claim.alive and claim.turn_id == turn_id:
            return True  # it has just begun
        # Another process may have gone on with it meanwhile.
        return self._seal(session_id) or self._journal.is_being_written(session_id, turn_id)

    def _running(self, session_id: str) -> Claim | None:
        session, claim = self._repository.load_claimed(session_id)
        if claim is None:
            self._recovery.notice_waiting(session)
        if claim is None or claim.alive:
            return claim
        goes_on = self._seal(session_id)
        claim = self._repository.claim_of(session_id)
        return claim if claim is not None and (claim.alive or goes_on) else None

    def _seal(self, session_id: str) -> bool:
        """Seal what dead turns of the session left, if that can be done now.

        Returns whether its turn goes on instead. Errors are not raised: a session or a stream can
        be read unsealed.
        """
        try:
            return self._recovery.seal(session_id)
        except SessionError:
            pass  # it is gone, or can't be read: so say those who read it
        except Exception as error:
            code = error.code if isinstance(error, MochiError) else type(error).__name__
            logger.warning(
                "a dead turn can't be sealed yet",
                extra={"session_id": session_id, "code": code},
                exc_info=not isinstance(error, MochiError),
            )
        return False


async def _has_begun(follower: JournalFollower) -> bool:
    """Wait for a turn's first event; close the follower if there is none, or nobody waits more."""
    begun = False
    try:
        begun = await follower.begun()
    finally:
        if not begun:
            follower.close()
    return begun
