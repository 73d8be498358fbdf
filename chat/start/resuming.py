"""Takes turns of dead processes over, so that this process goes on with them (docs/decisions/0179).

The journal is taken over first, exclusively: a claim of this process whose journal nobody writes
would look like that of a turn which is over. Each step may be the last one of this process; then
the next one that finds the turn takes it over.
"""

import logging
from dataclasses import dataclass
from functools import partial

import msgspec

from chat.context.history import Continuation, go_on
from chat.errors import TurnInterrupted, TurnLost
from chat.remote.continuing import plan
from chat.remote.recovery import TurnRecovery
from chat.remote.replay import ReplayedTurn, is_sound, replay
from chat.remote.sealing import closing_lines, seal_session
from chat.start.claiming import ClaimedTurn, stream_of
from chat.start.preparation import ChatPreparation, TurnPreparer
from chat.start.turn_request import TurnRequest, request_of
from chat.storage.journal import Fenced, JournalWriter, OwnerExpired, TurnJournal, whole_journal
from chat.storage.signals import Signals
from chat.stream.events import ResumeReason
from chat.stream.notes import JobNoted, Resumed
from chat.stream.turn_stream import TurnStream
from chat.turn.job import TurnJob
from chat.turn.session_writer import SessionWriter
from chat.work_threads import InThread
from sessions_app.calls import call_ids
from sessions_app.errors import MochiError, SessionBusy, SessionNotFound
from sessions_app.ids_and_clock import utc_now
from sessions_app.queueing import recovered
from sessions_app.session import Session
from sessions_app.store.repository import Claim, Hold, SessionRepository

logger = logging.getLogger(__name__)

_UNRETRACTABLE = frozenset({"chat_completions", "messages", "ollama"})
"""The protocols in which a text that was sent can't be taken back."""


class TakenTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that this process has taken over.

    Attributes:
        claim: The claim of the dead process.
        hold: The turn and this process.
        session: The session.
        turn: The turn so far.
        writer: Goes on with its journal.
        is_cancelled: Whether somebody cancelled it meanwhile.
    """

    claim: Claim
    hold: Hold
    session: Session
    turn: ReplayedTurn
    writer: JournalWriter
    is_cancelled: bool


class ResumedPreparation(ChatPreparation):
    """Prepares a turn that goes on: from the history as it is."""

    def _continuation(self, session: Session) -> Continuation | None:
        return go_on(session.messages)


@dataclass(frozen=True, slots=True)
class TurnTakeover:
    """Takes turns over that their processes left.

    Attributes:
        repository: The sessions.
        journal: The journals of turns.
        recovery: Decides which turns go on, and seals the others.
        preparer: Looks up model and tools.
        signals: The signals to turns.
        wants_summaries: Whether a final answer makes a summary due.
        in_thread: Runs what blocks in a thread.
    """

    repository: SessionRepository
    journal: TurnJournal
    recovery: TurnRecovery
    preparer: TurnPreparer
    signals: Signals
    wants_summaries: bool
    in_thread: InThread

    def noted(self, request: TurnRequest, session: Session) -> JobNoted | None:
        """Return what other processes need to go on with a turn; None if it is to be sealed."""
        rules = self.recovery.rules
        if rules is None or not rules.continues(request.on_crash, session):
            return None
        is_detached = request.detached or request.on_crash == "continue"
        return JobNoted(detached=is_detached, keyed=request.keyed, request=request.noted())

    def look(self, session_id: str) -> tuple[ReplayedTurn, bool] | None:
        """Return the turn that has the session's claim, and whether it is cancelled. Blocks.

        None without one.
        """
        claim = self.repository.claim_of(session_id)
        if claim is None or not claim.turn_id:
            return None
        turn = replay(whole_journal(self.journal, session_id, claim.turn_id))
        return turn, self.signals.is_waiting(claim.turn_id, "cancel")

    def take(self, session_id: str) -> TakenTurn | None:
        """Take the session's turn over; None if that is not possible any more. Blocks."""
        claim = self.repository.claim_of(session_id)
        if claim is None or not claim.turn_id:
            return None
        owner = self.repository.owners.mine()
        try:
            writer = self.journal.reopen(session_id, claim.turn_id, owner=owner)
        except (Fenced, FileNotFoundError, OwnerExpired):
            return None  # another one was faster, or there is nothing to go on with
        try:
            taken = self._taken(claim, owner, writer)
        except BaseException:
            writer.close()
            raise
        if taken is None:
            writer.close()
            self.recovery.seal(session_id)
        return taken

    def _taken(self, claim: Claim, owner: str, writer: JournalWriter) -> TakenTurn | None:
        session_id, turn_id = claim.session_id, claim.turn_id
        self.journal.set_aside(session_id, turn_id, is_sound)
        turn = replay(whole_journal(self.journal, session_id, turn_id))
        try:
            session = self.repository.load(session_id)
            # Before the claim: from then on, what fails has to be noted.
            is_cancelled = self.signals.is_waiting(turn_id, "cancel")
            if not self.recovery.may_continue(session, turn, turn_id):
                return None
            session = self.repository.update(
                session_id, lambda found: found, hold=claim.hold, owner=owner
            )
        except (SessionBusy, SessionNotFound):
            return None
        return TakenTurn(
            claim=claim,
            hold=Hold(turn_id, owner),
            session=session,
            turn=turn,
            writer=writer,
            is_cancelled=is_cancelled,
        )

    async def resume(self, taken: TakenTurn) -> tuple[ClaimedTurn, TurnRequest] | None:
        """Prepare the turn to go on; None if it ended, because it can't."""
        session_id, turn_id = taken.claim.session_id, taken.hold.turn_id
        last_number = taken.turn.last_number
        stream = stream_of(self.journal, session_id, turn_id, taken.writer, last_number)
        try:
            job, request = await self._job(taken, stream)
        except BaseException as error:  # whatever it is, the journal must not stay open
            try:
                if isinstance(error, MochiError) and not isinstance(error, TurnLost):
                    await self._end(taken, stream, error)
            finally:
                stream.close()
            if not isinstance(error, MochiError):
                raise
            await self.in_thread(partial(self.recovery.seal, session_id))
            return None
        session_writer = SessionWriter(
            self.repository,
            session=job.session,
            hold=taken.hold,
            replaced_id=job.continuation.replaced_id,
            wants_summaries=self.wants_summaries,
            in_thread=self.in_thread,
        )
        claimed = ClaimedTurn(
            owner=taken.hold.owner, job=job, stream=stream, session_writer=session_writer
        )
        return claimed, request

    async def _job(self, taken: TakenTurn, stream: TurnStream) -> tuple[TurnJob, TurnRequest]:
        """Note that this process goes on, then look up what the turn needs.

        After the note, since the note counts what fails here, too.

        Raises:
            MochiError: The turn can't go on.
        """
        turn, turn_id, session = taken.turn, taken.hold.turn_id, taken.session
        reason: ResumeReason = "server_stopped" if turn.was_handed_over else "process_died"
        stream.note(Resumed(attempt=turn.resumes + 1, owner=taken.hold.owner, reason=reason))
        if not await stream.flushed():
            stream.require_room()
        noted = turn.job
        request = request_of(noted.request if noted is not None else {})
        is_keyed = noted is not None and noted.keyed
        request = msgspec.structs.replace(request, detached=True, keyed=is_keyed)
        prepare = await ResumedPreparation(self.preparer, request).look_up(session)
        job = prepare(turn_id, session)
        resumed = plan(
            session,
            turn,
            turn_id,
            info=job.language_model.recall(job.model),
            tools=job.available_tools,
            begun=taken.claim.begun,
        )
        if resumed.discarded_id and request.dialect in _UNRETRACTABLE:
            raise TurnInterrupted(resumes=turn.resumes)  # its clients can't drop what they got
        job = msgspec.structs.replace(
            job,
            session=session,
            resumed=resumed,
            first_call="optional" if resumed.rounds or resumed.begun else job.first_call,
            call_ids=frozenset(call_ids(session.messages)) if job.available_tools.specs else (),
        )
        return job, request

    async def _end(self, taken: TakenTurn, stream: TurnStream, error: MochiError) -> None:
        """End a turn that can't go on with the error."""
        session_id, turn_id = taken.claim.session_id, taken.hold.turn_id
        logger.warning("a turn can't go on", extra={"session_id": session_id, "code": error.code})
        session = await self.in_thread(partial(self._save_rest, taken))
        if taken.turn.last_number:
            taken.writer.append(closing_lines(session, taken.turn, turn_id, error))
            await stream.flushed()

    def _save_rest(self, taken: TakenTurn) -> Session:
        def change(session: Session) -> Session:
            sealed = seal_session(session, taken.turn, now=utc_now(), begun=taken.claim.begun)
            return recovered(sealed, has_begun=bool(taken.turn.last_number))

        return self.repository.update(taken.claim.session_id, change, hold=taken.hold, release=True)
