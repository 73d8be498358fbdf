"""Starts turns for the messages that wait in inboxes, one after the other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from chat.errors import HistoryChanged, ShuttingDown, TooManyTurns
from chat.remote.recovery import TurnRecovery
from chat.start.queued_messages import NothingQueued, QueuedPreparation
from chat.work_threads import InThread
from mochi_project.principal import acting_for, principal
from sessions_app.errors import (
    MochiError,
    SessionBusy,
    SessionCorrupt,
    SessionNotFound,
    SessionReadOnly,
    StorageError,
)
from sessions_app.queueing import recovered, settled
from sessions_app.session import Session, with_inbox
from sessions_app.store.repository import SessionRepository

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""The pause before a message that finds no place, or no store, is tried again."""


class InboxDrain:
    """Starts a turn for the next message of each inbox that is named, if its session is idle.

    Several processes may try: one claims the session.

    Args:
        start_next: Starts the turn that is prepared.
        prepare: Prepares a turn for what waits.
        repository: The sessions.
        recovery: Seals dead turns.
        in_thread: Runs their changes in a thread.
    """

    def __init__(
        self,
        start_next: Callable[[str, QueuedPreparation], Awaitable[object]],
        prepare: Callable[[], QueuedPreparation],
        repository: SessionRepository,
        recovery: TurnRecovery,
        in_thread: InThread,
    ) -> None:
        self._start_next = start_next
        self._prepare = prepare
        self._repository = repository
        self._recovery = recovery
        self._in_thread = in_thread
        self._wanted: dict[str, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def begin(self, session_id: str) -> None:
        """Start a turn for a session soon; again, if one is being tried already."""
        if self._closed:
            return
        is_tried, self._wanted[session_id] = session_id in self._wanted, True
        if not is_tried:
            task = asyncio.create_task(self._run(session_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @property
    def is_busy(self) -> bool:
        """Return whether a turn is about to start."""
        return bool(self._tasks)

    def close(self) -> None:
        """Start no more turns; what waits is found by the next process."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    async def _run(self, session_id: str) -> None:
        try:
            while self._wanted[session_id]:
                self._wanted[session_id] = False
                with acting_for(principal().owner):  # not with the key of who woke it
                    await self._try(session_id)
        finally:
            del self._wanted[session_id]

    async def _try(self, session_id: str) -> None:
        while True:
            preparation = self._prepare()
            try:
                await asyncio.to_thread(self._require_next, session_id, preparation)
                await self._start_next(session_id, preparation)
            except (TooManyTurns, StorageError):
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except (NothingQueued, HistoryChanged, SessionBusy, SessionNotFound, ShuttingDown):
                pass
            except (SessionCorrupt, SessionReadOnly):
                pass  # who opens the session is told
            except MochiError as error:
                await self._pause(session_id, preparation.request.message_id, error)
            except Exception:
                logger.exception("a queued message can't be answered", extra=_of(session_id))
            return

    def _require_next(self, session_id: str, preparation: QueuedPreparation) -> None:
        """Raise ``NothingQueued`` if nothing waits, before that takes the place of another turn."""
        preparation.require_next(self._repository.load(session_id))

    async def _pause(self, session_id: str, message_id: str | None, error: MochiError) -> None:
        """Let what waits wait for a person, as the next message can't be answered as it is.

        Unless another process has taken that message meanwhile.
        """
        logger.warning("a queued message can't be answered: %s", error, extra=_of(session_id))

        def pause(session: Session) -> Session:
            returned = recovered(session, has_begun=False)
            waiting = returned.inbox.next
            if waiting is None or message_id not in (None, waiting.message_id):
                return session
            paused = settled(returned, pause="failed")
            why = {"code": error.code, "message": error.message}
            return with_inbox(paused, paused.inbox.pause("failed", why))

        recover = self._recovery.recover
        update = partial(self._repository.update_idle, session_id, pause, recover=recover)
        try:
            await self._in_thread(update)
        except SessionBusy:
            pass  # a turn runs
        except MochiError:
            logger.warning("an inbox could not be paused", extra=_of(session_id))


def _of(session_id: str) -> dict[str, str]:
    return {"session_id": session_id}
