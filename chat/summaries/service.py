"""Writes summaries of conversations: in the background after an answer, or on request."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from chat.errors import SummaryNotFound, SummaryNotPossible
from chat.storage.task_queue import TaskQueue
from chat.summaries.failures import SummaryFailure, SummaryFailures
from chat.summaries.models import SummaryModels
from chat.summaries.prompt import (
    ConversationSummary,
    TitledSummary,
    still_begins_with,
    wants_summary,
)
from chat.summaries.schemas import SummaryOut
from chat.summaries.task_lock import held
from chat.summaries.writer import SummaryPreempted, SummaryWriter
from mochi_project.principal import acting_for, principal
from models_app.errors import CallRefused
from sessions_app.errors import MochiError, SessionBusy, SessionNotFound
from sessions_app.ids_and_clock import utc_now
from sessions_app.labels import wants_title
from sessions_app.messages import AssistantMessage
from sessions_app.session import (
    Session,
    has_known_format,
    require_known_format,
    with_metadata,
)
from sessions_app.store.repository import SessionRepository

logger = logging.getLogger(__name__)

GAVE_WAY_SECONDS = 10.0
"""When a summary that gave way to another session's turn is tried again."""

PATIENCE_SECONDS = 600.0
"""The time for which a due summary gives way to other sessions' turns: on a server where there is
always one it would never be written."""

TOLERANCE_SECONDS = 0.5
CLOCK_TOLERANCE_SECONDS = 10.0
OVERDUE_SECONDS = 10.0
QUEUED_AT_ONCE = 50
GATHER_SECONDS = 0.5
"""The time for which answers are gathered to queue their summaries together: a queue is a database,
and opening it for every answer cost more than the answer (docs/decisions/0021)."""

QUEUED_AGAIN_SECONDS = 900.0
"""When a summary that was found overdue is queued again, should its task be lost too."""

TASK = "chat.tasks.summarize"


class SummaryService:
    """Makes summaries of sessions.

    Args:
        repository: The sessions.
        writer: Asks models for them.
        models: Chooses the models that write them.
        queue: Where summaries wait for the worker.
        failures: Records what could not be made.
        enabled: Whether they are made without being asked for.
        interval_seconds: How long a session must have been quiet.
        now: The clock.
    """

    def __init__(
        self,
        *,
        repository: SessionRepository,
        writer: SummaryWriter,
        models: SummaryModels,
        queue: TaskQueue,
        failures: SummaryFailures,
        enabled: bool,
        interval_seconds: float,
        now: Callable[[], str] = utc_now,
    ) -> None:
        self.enabled = enabled
        self._repository = repository
        self._writer = writer
        self.models = models
        self._queue = queue
        self._failures = failures
        self._interval_seconds = interval_seconds
        self._now = now
        self._answered: dict[str, None] = {}
        self._queueing: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._found: dict[str, tuple[tuple[str, int], float]] = {}

    # After an answer

    def notice_answer(self, session_id: str) -> None:
        """Queue a summary for later, now that an answer is on disk (with ``summary_due``).

        Returns at once. What can't be queued is found again by ``queue_due``.
        """
        if self.enabled:
            self._answered[session_id] = None
            if self._queueing is None or self._queueing.done():
                self._queueing = asyncio.create_task(self._queue_answered())

    async def _queue_answered(self) -> None:
        """Queue the sessions that are answered within a moment, each once."""
        while self._answered:
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER_SECONDS):
                    await self._closing.wait()
            answered, self._answered = list(self._answered), {}
            add = partial(self._queue.add, TASK, *answered, delay_seconds=self._interval_seconds)
            try:
                await asyncio.to_thread(add)
            except Exception:
                logger.exception("summaries were not queued", extra={"session_ids": answered})

    async def aclose(self) -> None:
        """Queue what was gathered, which takes a moment, and close connections."""
        self._closing.set()
        if self._queueing is not None:
            await self._queueing
        await self._writer.aclose()

    def queue_due(self, *, worker_is_new: bool = False) -> int:
        """Queue what is overdue: found in the sessions' files, whatever became of its task.

        When a worker comes up, with an empty queue, nothing can be in progress: all that is due is
        queued, for when its session is quiet, and what died with the last worker at once.

        Blocks; the supervisor of the worker calls it. Returns how many were queued.
        """
        if not self.enabled:
            return 0
        if worker_is_new:
            self._found.clear()
            self._failures.end_attempts()
        late = -math.inf if worker_is_new else self._interval_seconds + OVERDUE_SECONDS
        due_sessions = self._due_for(late)
        self._found = {key: found for key, found in self._found.items() if key in due_sessions}
        queued = 0
        for session_id, due in due_sessions.items():
            found = (due, self._failures.attempts(session_id, due))
            before, until = self._found.get(session_id, (found, 0.0))
            waits = before == found and time.monotonic() < until
            if waits or queued >= QUEUED_AT_ONCE or not self._failures.may_try(session_id, due):
                continue
            delay = max(self._interval_seconds - self._age_of(due), 0.0)
            if self._queue.add(TASK, session_id, delay_seconds=delay):
                self._found[session_id] = (found, time.monotonic() + QUEUED_AGAIN_SECONDS)
                queued += 1
        return queued

    def oldest_due_seconds(self) -> float:
        """Return for how long the oldest summary has waited that could be written. Blocks."""
        if not self.enabled:
            return 0.0
        waits = [
            self._age_of(due) - self._interval_seconds
            for session_id, due in self._due_for(self._interval_seconds).items()
            if self._failures.may_try(session_id, due)
        ]
        return max(filter(math.isfinite, waits), default=0.0)

    def put_off(self, session_id: str) -> None:
        """Queue a session again whose summary could not be begun. Blocks."""
        self._queue.add(TASK, session_id, delay_seconds=0.0)

    async def run_due(self, session_id: str) -> str:
        """Write the summary that is due, in the worker; return the result in a few words.

        Doing it twice makes one summary. It gives way to a turn that begins meanwhile.
        """
        async with held(self._queue, TASK, session_id) as is_ours:
            if not is_ours:
                return "skipped: another worker makes it"
            begun = await asyncio.to_thread(self._begin, session_id)
            return begun if isinstance(begun, str) else await self._write(*begun)

    def _begin(self, session_id: str) -> tuple[Session, str] | str:
        """Record an attempt and return the session and its model; or return why not now. Blocks."""
        try:
            session = self._repository.load(session_id)
        except MochiError as error:
            self._failures.forget(session_id)
            return f"skipped: {error.code}"
        if reason := self._why_not_now(session):
            return f"skipped: {reason}"
        model = self.models.choose(session.metadata)
        if not self.enabled or not wants_summary(session.messages) or model is None:
            self._save(session, None, None)
            return "skipped: none is wanted" if model else "skipped: no suitable model"
        if self._is_patient(session) and self._writer.is_wanted(model, but_not_by=session_id):
            return self._give_way(session_id)
        self._failures.begin(session_id, session.metadata.summary_due or "")
        return session, model

    def _why_not_now(self, session: Session) -> str | None:
        due = session.metadata.summary_due
        if due is None:
            return "nothing is due"
        if self._writer.is_busy(session.session_id):
            return "a turn runs"
        if self._age_of(due) < self._interval_seconds - TOLERANCE_SECONDS:
            return "the session is not quiet yet"
        if not self._failures.may_try(session.session_id, due, alone=True):
            return "it failed before"
        return None

    async def _write(self, session: Session, model: str) -> str:
        try:
            fallback = self.models.fallback_for(model, session.metadata)
            summary, model = await self._writer.write(
                session, model, fallback=fallback, gives_way=self._is_patient(session)
            )
            if await asyncio.to_thread(self._finish, session, summary, model):
                return "done"
        except (SummaryPreempted, MochiError) as why:
            return await asyncio.to_thread(self._note_end, session.session_id, why)
        delay = self._interval_seconds
        await asyncio.to_thread(self._queue.add, TASK, session.session_id, delay_seconds=delay)
        return "left for later: the conversation was changed"

    def _finish(
        self, session: Session, summary: ConversationSummary, model: str, *, named: bool = False
    ) -> bool:
        is_saved = self._save(session, summary, model, named=named)
        self._failures.forget(session.session_id)
        return is_saved

    def _note_end(self, session_id: str, why: SummaryPreempted | MochiError) -> str:
        """Record why a summary was not written; return it in a few words. Blocks."""
        match why:
            case SummaryPreempted():
                self._failures.withdraw(session_id)
                return self._give_way(session_id)
            case SessionBusy() | CallRefused():
                self._failures.withdraw(session_id)
                is_busy = isinstance(why, SessionBusy)
                return "gave way to a turn" if is_busy else f"left for later: {why.code}"
            case SessionNotFound():
                self._failures.forget(session_id)
                return "skipped: the session was deleted"
        logger.warning("a summary failed", extra={"session_id": session_id, "code": why.code})
        self._failures.failed(session_id, code=why.code, message=why.message, again=why.retryable)
        return f"failed: {why.code}"

    def _give_way(self, session_id: str) -> str:
        self._queue.add(TASK, session_id, delay_seconds=GAVE_WAY_SECONDS)
        return "gave way to a turn of another session"

    # On request

    async def summarize(self, session_id: str, model: str | None = None) -> SummaryOut:
        """Make a summary now, and remember the model that was named for it.

        It is made again if what it tells of is deleted, hidden or edited meanwhile.

        Raises:
            SessionNotFound, SessionCorrupt, SessionReadOnly: By the session.
            SessionBusy: A turn runs, or began meanwhile.
            SummaryNotPossible: There is nothing to summarize, or no model that can.
            ModelNotFound: The named model is not there.
            ModelError: The model can't be asked, or gave no usable answer.
        """
        session = await asyncio.to_thread(self._repository.load, session_id)
        require_known_format(session)
        answered = any(isinstance(message, AssistantMessage) for message in session.messages)
        if not answered:
            raise SummaryNotPossible(
                f"Session {session_id} has no answer yet that could be summarized.",
                session_id=session_id,
            )
        if model is not None:
            await self.models.check(model)
        chosen = model or self.models.choose(session.metadata)
        if chosen is None:
            raise SummaryNotPossible(
                f"Model '{session.metadata.model}' can't write summaries. Name one that can.",
                field="model",
                unsupported=sorted(self.models.unsupported),
            )
        if await asyncio.to_thread(self._writer.is_busy, session_id):
            raise SessionBusy(session_id)
        fallback = None if model else self.models.fallback_for(chosen, session.metadata)
        with acting_for(replace(principal(), models=("*",))):  # the client's choice was checked
            summary, chosen = await self._writer.write(session, chosen, fallback=fallback)
        named = model is not None
        if not await asyncio.to_thread(self._finish, session, summary, chosen, named=named):
            return await self.summarize(session_id, model)
        return SummaryOut(summary=summary.summary, topics=summary.topics, model_used=chosen)

    async def get(self, session_id: str) -> SummaryOut:
        """Return the summary that is there.

        Raises:
            SessionNotFound, SessionCorrupt: By the session.
            SummaryNotFound: There is none.
        """
        session = await asyncio.to_thread(self._repository.load, session_id)
        summary = session.metadata.summary or {}
        text, topics = summary.get("summary"), summary.get("topics")
        if not isinstance(text, str):
            raise SummaryNotFound(session_id, due=session.metadata.summary_due is not None)
        return SummaryOut(
            summary=text,
            topics=[topic for topic in topics if isinstance(topic, str)]
            if isinstance(topics, list)
            else [],
            model_used=session.metadata.summary_model or "",
        )

    def failing(self) -> Sequence[SummaryFailure]:
        """Return what could not be made, the last failure first. Blocks."""
        return self._failures.list()

    def forget(self, session_id: str) -> None:
        """Forget a session that was deleted. Blocks."""
        self._failures.forget(session_id)

    # Both

    def _save(
        self,
        session: Session,
        summary: ConversationSummary | None,
        model: str | None,
        *,
        named: bool = False,
    ) -> bool:
        """Merge a summary of ``session`` as it was into what it is now; return whether it may be.

        A conversation that did more than grow meanwhile gets none: the summary would keep what was
        deleted, and so would all later ones. A summary that was written elsewhere meanwhile stays;
        an answer that was given meanwhile is still due.
        """
        before = session.metadata

        def merge(current: Session) -> Session:
            metadata = current.metadata
            if not still_begins_with(current.messages, session.messages):
                return current
            changes: dict[str, Any] = {}
            if metadata.summary_due == before.summary_due:
                changes["summary_due"] = None
            if summary is not None and metadata.summary == before.summary:
                changes["summary"] = {"summary": summary.summary, "topics": summary.topics}
                if named or metadata.summary_model is None:
                    changes["summary_model"] = model
                if named:
                    changes["summary_model_by"] = "person"
            if isinstance(summary, TitledSummary) and summary.title and wants_title(metadata):
                changes |= {"title": summary.title, "titled_by": "model"}
            # Not `now`: a summary is no reason for a session to come first in the list.
            return with_metadata(current, now=metadata.updated_at, **changes)

        saved = self._repository.update(session.session_id, merge)
        return still_begins_with(saved.messages, session.messages)

    def _is_patient(self, session: Session) -> bool:
        """Return whether its summary still gives way to turns, not being due for long."""
        due = session.metadata.summary_due
        return due is not None and self._age_of(due) <= PATIENCE_SECONDS

    def _due_for(self, seconds: float) -> Mapping[str, str]:
        """Return the sessions whose summaries are due for so long, and since when. Blocks."""
        return {
            metadata.session_id: metadata.summary_due
            for metadata in self._repository.list().sessions
            if metadata.summary_due is not None
            and has_known_format(metadata)
            and self._age_of(metadata.summary_due) >= seconds
        }

    def _age_of(self, timestamp: str) -> float:
        """Return the seconds since then; a time that makes no sense is long ago."""
        try:
            then = datetime.fromisoformat(timestamp)
        except ValueError:
            return math.inf
        if then.tzinfo is None:
            then = then.replace(tzinfo=UTC)
        age = (datetime.fromisoformat(self._now()) - then).total_seconds()
        # A clock that was set back must not keep a summary for ever.
        return age if age > -CLOCK_TOLERANCE_SECONDS else math.inf
