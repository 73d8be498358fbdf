"""Claims sessions for turns: the claim and the user's message are one write; the journal follows.

The message is saved before the model is asked (docs/decisions/0010), and all lookups are done
before the claim (docs/decisions/0049). Until its journal is there, a claim lives by its process
(docs/decisions/0177). Decisions of the request are recorded with it
(docs/decisions/0112).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from chat.approvals.store import ConfirmationStore
from chat.approvals.waiting import still_asked
from chat.errors import ConfirmationNotFound, ShuttingDown
from chat.remote.recovery import TurnRecovery
from chat.start.attempt import Attempt
from chat.start.earlier_turns import Renew, settle_earlier
from chat.start.preparation import Preparation, Prepare, SettingsChanged
from chat.storage.journal import JournalWriter, OwnerExpired, TurnJournal
from chat.stream.turn_stream import TurnStream
from chat.turn.job import TurnJob
from chat.turn.session_writer import SessionWriter, open_session
from chat.turn.turn_ids import last_turn_id, new_turn_id
from chat.work_threads import InThread
from sessions_app.calls import call_ids
from sessions_app.errors import SessionBusy, SessionNotFound
from sessions_app.ids_and_clock import utc_now
from sessions_app.session import Session, require_known_format
from sessions_app.store.repository import Change, Hold, SessionRepository

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

MOST_LOOK_UPS = 5
"""The maximum lookups for a turn whose session keeps changing; then the session counts as busy."""

NEW_ID_SECONDS = 10.0
NEW_ID_POLL_SECONDS = 0.02
"""The interval at which a process that others consider dead checks for another id."""


def _ignore(turn_id: str) -> None:
    """Do nothing."""


class _Overtaken(Exception):
    """Raised if another turn's journal has a later id, so that this turn would sort before it."""

    def __init__(self, turn_id: str) -> None:
        super().__init__(turn_id)
        self.turn_id = turn_id


class ClaimedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn whose session is claimed by an id of this process, ready to run."""

    owner: str
    job: TurnJob
    stream: TurnStream
    session_writer: SessionWriter


class TurnClaimer:
    """Claims sessions for turns.

    Args:
        repository: The sessions.
        journal: The journals of turns.
        recovery: Seals dead turns.
        confirmation_store: The questions of earlier turns, which a new turn withdraws.
        expect: Called with a turn's id before others can see the turn, maybe in a thread.
        forget: Called with the id if that turn does not begin.
        wants_summaries: Whether a final answer makes a summary due.
        saves: Whether the sessions are kept after their turns.
        in_thread: Runs the writes of turns to their sessions in a thread.
        renew_attachments: Lets files of removed messages count as used now.
    """

    def __init__(
        self,
        *,
        repository: SessionRepository,
        journal: TurnJournal,
        recovery: TurnRecovery,
        confirmation_store: ConfirmationStore,
        expect: Callable[[str], None] = _ignore,
        forget: Callable[[str], None] = _ignore,
        wants_summaries: bool = False,
        saves: bool = True,
        in_thread: InThread = asyncio.to_thread,
        renew_attachments: Renew | None = None,
    ) -> None:
        self._repository = repository
        self._journal = journal
        self._recovery = recovery
        self._confirmation_store = confirmation_store
        self._settle = partial(
            settle_earlier,
            recovery=recovery,
            confirmation_store=confirmation_store,
            renew_attachments=renew_attachments,
        )
        self._expect = expect
        self._forget = forget
        self._wants_summaries = wants_summaries
        self._saves = saves
        self._in_thread = in_thread
        self._looking_up: set[asyncio.Task[Any]] = set()
        self._closed = False

    def close(self) -> None:
        """Refuse turns that have not claimed their sessions yet, however long their lookups take.

        A claim that was begun is finished, as it may be on disk.
        """
        self._closed = True
        for task in self._looking_up:
            task.cancel()

    async def claim(
        self,
        session_id: str,
        preparation: Preparation,
        *,
        announce: Callable[[str], None] = _ignore,
        new: Session | None = None,
    ) -> ClaimedTurn:
        """Look up what the turn needs, then claim the session; both again if its settings changed.

        Args:
            session_id: The session.
            preparation: Looks up model and tools, and makes the job, or refuses the turn.
            announce: Called with the turn's id, in a thread and under the session's lock, once the
                turn can begin and before any part of it is saved.
            new: The session to create in the same write as the claim, if any.

        Raises:
            SessionNotFound, SessionCorrupt, SessionBusy, SessionExists: From the repository.
            MochiError: From the preparation; ``ShuttingDown`` after ``close``.
        """
        session = new or self._repository.recall(session_id)
        if session is None or (new is None and preparation.must_ask(session)):
            load = partial(self._load_idle, session_id)
            session = await self._until_closed(self._in_thread(load))
        for _ in range(MOST_LOOK_UPS):
            prepare = await self._until_closed(preparation.look_up(session))
            try:
                return await self._in_thread(
                    partial(self._claim, session_id, prepare, announce, new)
                )
            except SettingsChanged as changed:
                session = changed.session
        raise SessionBusy(session_id)

    async def _until_closed(self, look_up: Awaitable[Result]) -> Result:
        """Await a lookup, which ``close`` cancels.

        Raises:
            ShuttingDown: It did.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - in a coroutine
        self._looking_up.add(task)
        try:
            return await look_up
        except asyncio.CancelledError:
            if not self._closed:
                raise
            task.uncancel()
            raise ShuttingDown from None
        finally:
            self._looking_up.discard(task)

    def _load_idle(self, session_id: str) -> Session:
        """Return the session, unless a turn runs, so that no provider is asked in vain."""
        session, claim = self._repository.load_claimed(session_id)
        if claim is not None and claim.alive:
            raise SessionBusy(session_id, claim.turn_id)
        require_known_format(session)
        return session

    def _claim(
        self,
        session_id: str,
        prepare: Prepare,
        announce: Callable[[str], None],
        new: Session | None,
    ) -> ClaimedTurn:
        """Claim the session for a turn whose id sorts after those of all its turns.

        Ids are compared under the session's lock, with those of journals and messages, so they have
        the order of the turns, even if one starts slowly or the clock is set back.
        """
        turn_id = new_turn_id()
        while True:
            hold = Hold(turn_id, self._repository.owners.mine())
            try:
                return self._claim_as(hold, session_id, prepare, announce, new)
            except _Overtaken as newer:
                turn_id = new_turn_id(after=newer.turn_id)
            except OwnerExpired:
                self._await_other_id(session_id, hold.owner)

    def _await_other_id(self, session_id: str, owner: str) -> None:
        """Wait until this process, which others consider dead, has another id.

        Raises:
            SessionBusy: It got none in time.
        """
        deadline = time.monotonic() + NEW_ID_SECONDS
        while self._repository.owners.mine() == owner:
            if time.monotonic() > deadline:
                raise SessionBusy(session_id)
            time.sleep(NEW_ID_POLL_SECONDS)

    def _claim_as(
        self,
        hold: Hold,
        session_id: str,
        prepare: Prepare,
        announce: Callable[[str], None],
        new: Session | None,
    ) -> ClaimedTurn:
        attempt = Attempt(is_new=new is not None)
        writer: JournalWriter | None = None
        self._expect(hold.turn_id)
        try:
            session, (before, job, earlier_turns) = self._repository.claim(
                session_id,
                hold.turn_id,
                owner=hold.owner,
                change=partial(self._open_turn, hold.turn_id, prepare, announce, attempt),
                recover=self._recovery.recover,
                new=new,
            )
            writer = self._journal.open(session_id, hold.turn_id, owner=hold.owner)
            self._settle(before, session, job, earlier_turns)
        except BaseException:
            self._forget(hold.turn_id)
            if attempt.was_made:
                self._give_up(session_id, hold, writer, attempt.taken_back)
            raise
        ids = frozenset(call_ids(session.messages)) if job.available_tools.specs else ()
        job = msgspec.structs.replace(job, session=session, is_saved=self._saves, call_ids=ids)
        session_writer = SessionWriter(
            self._repository,
            session=session,
            hold=hold,
            replaced_id=job.continuation.replaced_id,
            wants_summaries=self._wants_summaries,
            in_thread=self._in_thread,
            is_new=new is not None,
            undo=attempt.taken_back,
        )
        stream = stream_of(self._journal, session_id, hold.turn_id, writer)
        return ClaimedTurn(owner=hold.owner, job=job, stream=stream, session_writer=session_writer)

    def _open_turn(
        self,
        turn_id: str,
        prepare: Prepare,
        announce: Callable[[str], None],
        attempt: Attempt,
        session: Session,
    ) -> tuple[Session, tuple[Session, TurnJob, Sequence[str]]]:
        """Return the session with the started turn, or refuse the turn.

        Also the session before it, its job, and the earlier turns with a journal. May be called
        again with a newer session.
        """
        turns = [each for each in self._journal.turns(session.session_id) if each != turn_id]
        last = max(*turns[-1:], last_turn_id(session.messages), "")
        if last >= turn_id:
            raise _Overtaken(last)
        job = prepare(turn_id, session)
        for decision in job.decisions:  # they are recorded together, or not at all
            question, _ = self._confirmation_store.decide(
                session.session_id, decision, repeatable=True, dry=True
            )
            if not still_asked(session, question):
                raise ConfirmationNotFound(decision.confirmation_id)
        announce(turn_id)
        changed = open_session(job.session, job, now=utc_now())
        attempt.note(session, changed, rewinds=job.rewinds)
        return changed, (session, job, turns)

    def _give_up(
        self, session_id: str, hold: Hold, writer: JournalWriter | None, undo: Change
    ) -> None:
        """Undo the claim of a turn that can't begin, and what was saved with it.

        Failures are only logged, as the client gets the reason why the turn can't begin. If the
        claim stays, because the disk is full, so does the journal: it shows that the turn is over,
        and the next turn removes both. A claim without a journal is released later.
        """
        try:
            try:
                self._repository.update(session_id, undo, hold=hold, release=True)
            except (SessionBusy, SessionNotFound):
                pass  # it was not made, others have ended it, or it can't be had: that is looked at
            finally:
                if writer is not None:
                    writer.close()
            claim = self._repository.claim_of(session_id)
            if claim is None or claim.turn_id != hold.turn_id:
                self._journal.discard(session_id, hold.turn_id)
                return
        except Exception:
            logger.exception(
                "a turn that can't begin left something behind",
                extra={"session_id": session_id, "turn_id": hold.turn_id},
            )
        if writer is None:
            self._recovery.release_later(session_id, hold)


def stream_of(
    journal: TurnJournal, session_id: str, turn_id: str, writer: JournalWriter, last_number: int = 0
) -> TurnStream:
    """Return the stream of a turn of this process, after its events in other ones."""
    return TurnStream(
        turn_id,
        session_id=session_id,
        writer=writer,
        read_journal=partial(asyncio.to_thread, journal.read, session_id, turn_id),
        discard_journal=partial(asyncio.to_thread, journal.discard, session_id, turn_id),
        last_number=last_number,
    )
