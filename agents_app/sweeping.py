"""Deletes sessions past their retention, and agents' sessions whose callers were deleted."""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import msgspec

from agents_app.sessions import caller_of
from sessions_app.decoding import decode_as
from sessions_app.errors import MochiError, SessionBusy, SessionNotFound
from sessions_app.retention import DueSessions, SessionKept, due_in, require_unchanged
from sessions_app.service import SessionManager
from sessions_app.session import SessionMetadata
from sessions_app.store.locks import FileLocks
from sessions_app.store.records import Records, read_or_empty

logger = logging.getLogger(__name__)

RECORD = "deleted.json"
DAY = timedelta(days=1)

FIRST_SECONDS, PAUSE_SECONDS = 600.0, 3600.0
"""From the start to the first sweep, and between two: the first listing reads each session."""


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """Counts the sessions that were deleted for their age in the day that began then."""

    since: datetime
    count: int = 0


class SessionSweep:
    """Deletes sessions that are kept no longer: once an hour, in one process at a time.

    Args:
        sessions: People's sessions.
        chats: Agents' sessions; they go some time after the sessions whose calls made them.
        days: How long sessions are kept that nobody changes; 0: for ever.
        records: Where it is kept how many were deleted today, for all nodes.
        lock_dir: Where the processes of this machine lock each other out.
        now: The clock.
        elapsed: Counts seconds.
        first_seconds: The seconds until the first sweep.
    """

    def __init__(
        self,
        sessions: SessionManager,
        chats: SessionManager,
        *,
        days: int,
        records: Records,
        lock_dir: Path,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        elapsed: Callable[[], float] = time.monotonic,
        first_seconds: float = FIRST_SECONDS,
    ) -> None:
        self._sessions = sessions
        self._chats = chats
        self._days = days
        self._records = records
        self._lock_dir = lock_dir
        self._now = now
        self._elapsed = elapsed
        self._next = elapsed() + first_seconds

    def run(self) -> int:
        """Sweep if one is due and no other process sweeps; return how many were deleted. Blocks."""
        if self._elapsed() < self._next:
            return 0
        self._next = self._elapsed() + PAUSE_SECONDS
        locks = FileLocks(self._lock_dir)
        try:
            with locks.held("retention", timeout_seconds=0):
                return self._sweep()
        except TimeoutError:
            return 0
        finally:
            locks.close()

    def due(self) -> DueSessions:
        """Return what a sweep would delete of people's sessions now. Blocks."""
        return self._due(self._deleted_today().count)

    def _due(self, deleted_today: int) -> DueSessions:
        listing = self._sessions.repository.list()
        if not listing.complete:
            return DueSessions()
        return due_in(
            listing.sessions, days=self._days, now=self._now(), deleted_today=deleted_today
        )

    def _sweep(self) -> int:
        today = self._deleted_today()
        due = self._due(today.count)
        refused = self._delete(due.refused, self._sessions)
        if due.expired:  # before: where that can't be kept, nothing is deleted
            today = msgspec.structs.replace(today, count=today.count + len(due.expired))
            self._records.put(RECORD, msgspec.json.encode(today))
        expired = self._delete(due.expired, self._sessions)
        if refused or expired:
            logger.info(
                "sessions were deleted for their age",
                extra={"refused": refused, "expired": expired, "days": self._days},
            )
        if due.waiting:
            logger.warning(
                "many sessions are old enough to be deleted (MOCHI_SESSION_RETENTION_DAYS); "
                "the rest goes in the next days, unless the clock is wrong",
                extra={"deleted": expired, "waiting": due.waiting, "total": due.total},
            )
        return refused + expired + self._sweep_chats()

    def _sweep_chats(self) -> int:
        """Delete agents' sessions of the same age whose callers are gone."""
        if not self._days:
            return 0
        listing, callers = self._chats.repository.list(), self._sessions.repository.list()
        if not (listing.complete and callers.complete and not callers.unreadable):
            return 0
        there = {one.session_id for one in (*callers.sessions, *listing.sessions)}
        alone = [one for one in listing.sessions if caller_of(one) not in there]
        return self._delete(due_in(alone, days=self._days, now=self._now()).expired, self._chats)

    def _delete(self, due: Sequence[SessionMetadata], sessions: SessionManager) -> int:
        deleted = 0
        for listed in due:
            try:
                sessions.delete(listed.session_id, check=partial(require_unchanged, listed))
                deleted += 1
            except (SessionKept, SessionBusy, SessionNotFound):
                continue
            except MochiError as error:  # the others are tried all the same
                logger.warning(
                    "a session that is kept no longer can't be deleted",
                    extra={"session_id": listed.session_id, "code": error.code},
                )
        return deleted

    def _deleted_today(self) -> Deleted:
        now = self._now()
        try:
            kept = decode_as(read_or_empty(self._records, RECORD) or b"", Deleted)
            if timedelta(0) <= now - kept.since < DAY:
                return kept
        except (msgspec.MsgspecError, TypeError):
            pass  # nothing was deleted yet, as far as anybody knows
        return Deleted(since=now)
