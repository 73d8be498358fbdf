"""Writes a turn's messages into its session; each write is atomic."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from chat.context.window import WindowChoice, record_choice
from chat.errors import TurnInterrupted, TurnLost
from chat.stream.events import MessageTaken
from chat.summaries.prompt import with_summary_due
from chat.turn.job import TurnJob
from chat.turn.outcome import taken
from chat.work_threads import InThread, run_to_end
from sessions_app.context_state import ContextState
from sessions_app.errors import SessionBusy, SessionError, StorageError
from sessions_app.ids_and_clock import utc_now
from sessions_app.labels import titled_by_message
from sessions_app.messages import NO_EXTRA, AssistantMessage, Message, ToolMessage, UserMessage
from sessions_app.queueing import next_message, settled
from sessions_app.session import (
    Session,
    ToolSettings,
    append_messages,
    with_inbox,
    with_metadata,
    with_refusal,
)
from sessions_app.store.repository import Change, Hold, SessionRepository
from sessions_app.variants import extend_answer, prefer_whole, without_replaced

logger = logging.getLogger(__name__)


def _unchanged(session: Session) -> Session:
    return session


class SessionWriter:
    """Writes one turn's messages, in a thread, and releases the claim at its end.

    A write is awaited to its end even if the turn is stopped meanwhile, so messages keep their
    order. A message whose id the session has already is not written again.

    An answer to be regenerated stays in the file until a message replaces it, and then stays as a
    variant of the new one.

    Attributes:
        has_news: Whether messages may have come for the turn since its last write.
        pauses: Whether messages that wait are not answered if the turn is cancelled.
        is_undone: Whether the turn's changes were undone, because it ended without an answer.
    """

    def __init__(
        self,
        repository: SessionRepository,
        *,
        session: Session,
        hold: Hold,
        replaced_id: str | None = None,
        wants_summaries: bool = False,
        in_thread: InThread = asyncio.to_thread,
        is_new: bool = False,
        undo: Change = _unchanged,
    ) -> None:
        self._is_new = is_new
        self._undo = undo
        self.is_undone = False
        self.has_news = False
        self.pauses = True
        self._in_thread = in_thread
        self._repository = repository
        self._session = session
        self._hold = hold
        self._replaced_id = replaced_id
        self._wants_summaries = wants_summaries
        self._released = False
        self._is_secured = False
        self._begun: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._taken: set[str] = set()

    def history(self) -> Sequence[Message]:
        """Return the messages so far."""
        return self.session.messages

    @property
    def session(self) -> Session:
        """The session as last written by this turn, without the answer that it regenerates."""
        return without_replaced(self._session, self._replaced_id)

    @property
    def has_next(self) -> bool:
        """Return whether the session was released with a message that its next turn answers."""
        return self._released and next_message(self._session) is not None

    async def keep_context(self, state: ContextState | None) -> Session:
        """Record which messages are no longer sent to the model; return the changed session."""
        await self._write(
            lambda session: with_metadata(
                session, now=session.metadata.updated_at, context_state=state
            )
        )
        return self.session

    async def keep_tool_settings(self, change: Callable[[ToolSettings], ToolSettings]) -> None:
        """Change the session's tool settings, as a person did who approved a call."""
        await self._write(
            lambda session: with_metadata(
                session,
                now=session.metadata.updated_at,
                tool_settings=change(session.metadata.tool_settings or ToolSettings()),
            )
        )

    async def append(
        self, *messages: Message, begun: Sequence[str] = (), steered: bool = False
    ) -> None:
        """Append messages that are not there yet, and record which calls begin.

        From then on, a message that the turn took out of the inbox is said for good.
        With ``steered`` the messages that wait for the turn are taken in the same write.
        """
        if messages:
            follow = self._with_steers if steered else _unchanged
            await self._write(
                lambda session: settled(follow(self._extended(session, *messages))), begun
            )

    async def steers(self) -> Sequence[MessageTaken]:
        """Take the messages that wait for the turn; return those taken since the last call.

        Nothing is written if none is known to wait.
        """
        if self.has_news or self._session.inbox.steers:
            await self._write(self._with_steers)
        return self.taken_steers()

    def taken_steers(self) -> Sequence[MessageTaken]:
        """Return the messages that were taken since the last call."""
        if not self._taken:
            return ()
        ids, self._taken = self._taken, set()
        return taken(self._session, ids)

    async def begin(self, calls: Sequence[str]) -> None:
        """Record in the claim that these calls begin, except those that it has already.

        Do nothing if the repository's claims do not record calls: then only the journal does.
        """
        new = [call for call in calls if call not in self._begun]
        if new and self._repository.keeps_begun:
            await self._write(lambda session: session, new)

    async def finish(
        self,
        message: AssistantMessage | None,
        window: WindowChoice,
        pause: str | None = None,
        *,
        refused: bool = False,
        undoes: bool = False,
    ) -> None:
        """Append the last message, if there is one, and release the session.

        A session created for a ``refused`` turn is marked as refused. With ``undoes``, what was
        changed at the start of the turn is undone instead. ``pause`` says why messages in the inbox
        are not answered now; None if the next turn answers them.

        A message that can't be saved leaves the session claimed, so that a partial answer can be
        saved.
        """
        now = utc_now()
        settle = partial(settled, pause=pause if pause != "cancelled" or self.pauses else None)

        def close_turn(session: Session) -> Session:
            closed = session if message is None else self._extended(session, message)
            is_over = message is not None and not message.tool_calls
            if self._wants_summaries and is_over and closed is not session:
                closed = with_summary_due(closed, now=now)
            elif is_over and closed is not session:
                closed = titled_by_message(closed)
            return settle(_with_window(prefer_whole(closed, now=now), window, now))

        def write_and_release() -> None:
            if message is not None:
                self._update(close_turn, release=True)
                self._released = True
            elif undoes:
                self.is_undone = self._closed_with(lambda session: settle(self._undo(session)))
            elif refused and self._is_new:
                self._closed_with(with_refusal)
            else:
                self._closed_with(settle)
            self._release()

        await run_to_end(write_and_release, self._in_thread)

    async def secure(self, sync_journal: Callable[[], None]) -> None:
        """Sync the turn's claim and journal, so that they survive a power failure."""

        def sync() -> None:
            sync_journal()
            if not self._is_secured:
                self._repository.sync_claims()
                self._is_secured = True

        await run_to_end(sync, self._in_thread)

    async def release(self) -> None:
        """Release the session for the next turn. Idempotent."""
        await run_to_end(self._release, self._in_thread)

    def require_hold(self) -> None:
        """Check that other processes consider this one alive, so that nothing runs twice.

        Raises:
            TurnInterrupted: They may consider it dead by now.
        """
        if not self._repository.owners.holds():
            raise TurnInterrupted

    def _extended(self, session: Session, *messages: Message) -> Session:
        known = _answered_calls(session)  # by a write that a stop did not wait for, perhaps
        said = [
            said_in(self._hold.turn_id, message)
            for message in messages
            if not (isinstance(message, ToolMessage) and message.tool_call_id in known)
        ]
        return extend_answer(session, *said, now=utc_now(), replaced_id=self._replaced_id)

    def _with_steers(self, session: Session) -> Session:
        """Take the steering messages out of the inbox and append them (docs/decisions/0183)."""
        self.has_news = False
        if not (waiting := session.inbox.steers):
            return session
        now = utc_now()
        steers = [
            UserMessage(
                content=each.content,
                attachments=each.attachments,
                message_id=each.message_id,
                timestamp=now,
                turn_id=self._hold.turn_id,
                extra=each.request.get("extra", NO_EXTRA),
            )
            for each in waiting
        ]
        ids = [each.message_id for each in steers]
        self._taken.update(ids)  # again, perhaps, if the write is tried again
        return append_messages(with_inbox(session, session.inbox.take(*ids)), *steers, now=now)

    async def _write(self, change: Callable[[Session], Session], begun: Sequence[str] = ()) -> None:
        await run_to_end(lambda: self._update(change, begun=begun), self._in_thread)

    def _update(
        self,
        change: Callable[[Session], Session],
        *,
        release: bool = False,
        begun: Sequence[str] = (),
    ) -> None:
        try:
            with self._lock:  # an agent's approver writes while results are appended
                self._session = self._repository.update(
                    self._session.session_id,
                    change,
                    hold=self._hold,
                    release=release,
                    begun=begun,
                )
        except SessionBusy as error:
            claim = self._repository.claim_of(self._session.session_id)
            if claim is None or claim.hold != self._hold:
                raise TurnLost from error
            raise
        self._begun = self._begun.union(begun)

    def _closed_with(self, change: Change) -> bool:
        """Change the session of a turn without an answer, if that can be done, and release it."""
        try:
            self._update(change, release=True)
        except (SessionError, StorageError, TurnLost) as error:  # it is kept as it is
            logger.info("a session is kept as its turn left it", extra={"code": error.code})
            return False
        self._released = True
        return True

    def _release(self) -> None:
        if not self._released:
            self._repository.release(self._session.session_id, self._hold)
            self._released = True


def _answered_calls(session: Session) -> set[str | None]:
    """Return the ids of the calls of the last round that have results."""
    known: set[str | None] = set()
    for message in reversed(session.messages):
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, ToolMessage):
            known.add(message.tool_call_id)
    return known - {None}


def open_session(session: Session, job: TurnJob, *, now: str) -> Session:
    """Append the request's messages and record the context window."""
    opened = session
    if job.messages:
        said = [_brought_to(job.turn_id, message) for message in job.messages]
        opened = append_messages(opened, *said, now=now)
    if job.available_tools.first_uses is not None:
        opened = with_metadata(opened, now=now, tool_settings=job.available_tools.first_uses)
    return _with_window(opened, job.window, now)


def said_in(turn_id: str, message: Message) -> Message:
    """Return the message with the id of its turn, unless it has one."""
    return message if message.turn_id else msgspec.structs.replace(message, turn_id=turn_id)


def _brought_to(turn_id: str, message: Message) -> Message:
    """Return a message of the request with the turn's id, which answers from elsewhere lack."""
    return message if isinstance(message, AssistantMessage) else said_in(turn_id, message)


def _with_window(session: Session, decision: WindowChoice, now: str) -> Session:
    config = record_choice(session.window, decision, model=session.metadata.model, now=now)
    return with_metadata(session, now=now, context_window_config=config)
