"""Stores an index of an object store's sessions in Redis, with a full copy in memory.

A listing fetches only the changes since the last one. Entries that Redis lost or never got are read
from the objects again (docs/decisions/0067).
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from cluster_app.objects.heads import read_indexed
from cluster_app.objects.indexed import SUFFIX, Indexed, from_entry, to_entry
from cluster_app.objects.store import ListedObject, ObjectStore
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.index_entries import IndexChanges, IndexEntries
from cluster_app.redis.known_sessions import KnownSessions
from sessions_app.errors import StorageError
from sessions_app.session import SessionMetadata
from sessions_app.store.listing import FILE_NAME
from sessions_app.store.repository import Claim, Listing, Unreadable

logger = logging.getLogger(__name__)

READERS = 32
RETRY_SECONDS = 10.0
"""The pause of maintenance after objects could not be read, unless a listing waits for it."""


class IndexTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The intervals of an index's maintenance.

    Attributes:
        dirty_ms: The age of a mark at which its write counts as dead.
        checked_ms: The interval of comparisons with the objects.
        lease_ms: The time limit of a step of a comparison before another process starts over.
        wait_seconds: How long a listing waits for objects being read.
    """

    dirty_ms: int = 10_000
    checked_ms: int = 3_600_000
    lease_ms: int = 60_000
    wait_seconds: float = 2.0


TIMES = IndexTimes()


class RedisSessionIndex:
    """Indexes sessions in Redis; implements ``SessionIndex``. Connects on first use.

    Args:
        connection: The Redis connection, with the key prefix of these sessions.
        store: The objects of the sessions.
        times: The intervals of maintenance.
    """

    def __init__(
        self,
        connection: RedisConnection,
        store: ObjectStore,
        *,
        times: IndexTimes = TIMES,
    ) -> None:
        self._entries = IndexEntries(connection, store.name)
        self._known = KnownSessions(self._entries, due_after_ms=times.dirty_ms)
        self._store = store
        self._times = times
        self._lock = threading.Lock()
        self._untold: set[str] = set()
        self._retry_at = 0.0

    def writing(self, session_id: str) -> str:
        """Mark the session as about to be written."""
        mark = secrets.token_hex(8)
        try:
            self._entries.mark(session_id, mark, writes=True)
        except StorageError:
            logger.warning("the index of sessions is out of reach", exc_info=True)
        return mark

    def wrote(
        self,
        session_id: str,
        mark: str,
        *,
        etag: str,
        metadata: SessionMetadata,
        claim: Claim | None = None,
    ) -> None:
        """Store the entry of a written object."""
        self._tell(session_id, mark, Indexed(etag=etag, found=metadata, claim=claim))

    def removed(self, session_id: str, mark: str) -> None:
        """Remove the entry of a deleted object."""
        self._tell(session_id, mark, None)

    def unwritten(self, session_id: str, mark: str) -> None:
        """Remove the mark of a failed write."""
        try:
            self._entries.unmark(session_id, mark)
        except StorageError:  # then the session is read again unnecessarily
            logger.warning("the index of sessions is out of reach", exc_info=True)

    def listing(self) -> Listing:
        """Return the entries of all sessions, even if incomplete."""
        try:
            look = self._look(may_wait=True)
        except StorageError:
            logger.warning("the index of sessions is out of reach", exc_info=True)
            return self._known.listing(complete=False)
        return self._known.listing(complete=bool(look.build) and not look.is_doubted)

    def claims(self) -> Sequence[Claim]:
        """Return the claims in the entries; also starts the maintenance that is due."""
        self._look(may_wait=False)
        return self._known.claims()

    def compare(self) -> None:
        """Compare all entries with the objects now, after a comparison already running.

        Raises:
            StorageError: The objects or the index can't be reached.
        """
        while (token := self._begin()) is None:
            threading.Event().wait(0.1)
        self._compare(token)
        self._known.refresh()

    def _tell(self, session_id: str, mark: str, indexed: Indexed | None) -> None:
        try:
            self._entries.wrote(session_id, mark, _entry_of(indexed), _worker_of(indexed))
        except StorageError:
            logger.warning("a write did not reach the index of sessions", exc_info=True)
            self._known.put(session_id, indexed)
            with self._lock:
                self._untold.add(session_id)

    def _look(self, *, may_wait: bool) -> IndexChanges:
        """Update the cache, and start the maintenance that is due."""
        look, due = self._known.refresh()
        with self._lock:
            untold, self._untold = self._untold, set()
            if not may_wait and time.monotonic() < self._retry_at:
                self._untold |= {*due, *untold}
                return look
        if again := {*due, *untold}:
            self._run_in_thread(partial(self._read_again, again), waits=may_wait)
        elif not self._is_unchecked(look):
            return look
        if self._is_unchecked(look) and (token := self._begin_if_due()) is not None:
            self._run_in_thread(
                partial(self._compare, token), waits=may_wait and not len(self._known)
            )
        return self._known.refresh()[0]

    def _is_unchecked(self, look: IndexChanges) -> bool:
        is_due = look.is_doubted or look.unchecked_ms > self._times.checked_ms
        return is_due or not look.build

    def _run_in_thread(self, work: Callable[[], None], *, waits: bool) -> None:
        """Run something in a thread; wait for it up to ``wait_seconds`` if ``waits``."""

        def logged() -> None:
            try:
                work()
            except StorageError:  # it stays due
                self._retry_at = time.monotonic() + RETRY_SECONDS
                logger.warning("the index of sessions could not read objects", exc_info=True)
            except Exception:
                logger.exception("the index of sessions failed")

        thread = threading.Thread(target=logged, name="session-index", daemon=True)
        thread.start()
        if waits:
            thread.join(self._times.wait_seconds)

    def _read_again(self, session_ids: Iterable[str]) -> None:
        """Read the objects of sessions with an unreported or unfinished write."""
        left = set(session_ids)
        try:
            for session_id in sorted(left):
                self._read(session_id, settles=True)
                left.remove(session_id)
        except StorageError:
            with self._lock:
                self._untold |= left
            raise

    def _read(self, session_id: str, *, settles: bool = False) -> None:
        """Read a session's object and store its entry, unless it is being written."""
        mark = secrets.token_hex(8)
        marks = self._entries.mark(session_id, mark)
        try:
            indexed = read_indexed(self._store, session_id)
        except StorageError:
            self._entries.unmark(session_id, mark)
            raise
        entry, worker = _entry_of(indexed), _worker_of(indexed)
        self._entries.read_again(session_id, mark, entry, worker, marks if settles else ())

    def _begin(self) -> str | None:
        return self._entries.begin_rebuild(lease_ms=self._times.lease_ms)

    def _begin_if_due(self) -> str | None:
        """Take the lease for a comparison, unless another process has just ended one."""
        token = self._begin()
        if token is None or self._is_unchecked(self._known.refresh()[0]):
            return token
        self._entries.end_rebuild(token, complete=False)
        return None

    def _compare(self, token: str) -> None:
        """Update the index from the objects; stop if another process took the lease."""
        complete = False
        try:
            complete = self._compare_all(token)
        finally:
            self._entries.end_rebuild(token, complete=complete)

    def _compare_all(self, token: str) -> bool:
        # Not from the cache: Redis may have lost some entries.
        entries = self._entries.all()
        known = {each: from_entry(entry, each) for each, entry in entries}
        present: set[str] = set()
        differing: list[str] = []
        for page in self._store.list():
            if not self._entries.go_on(token, lease_ms=self._times.lease_ms):
                return False
            for listed in filter(_is_session, page):
                session_id = listed.key.removesuffix(SUFFIX)
                present.add(session_id)
                before = known.get(session_id)
                if before is None or not listed.has_tag(before.etag):
                    differing.append(session_id)
        differing += known.keys() - present
        with ThreadPoolExecutor(READERS) as readers:
            for start in range(0, len(differing), READERS):
                if not self._entries.go_on(token, lease_ms=self._times.lease_ms):
                    return False
                list(readers.map(self._read, differing[start : start + READERS]))
        return True


def _entry_of(indexed: Indexed | None) -> bytes:
    return b"" if indexed is None else to_entry(indexed)


def _worker_of(indexed: Indexed | None) -> str:
    """Return the process of an entry's claim; "@" without one if messages wait for a turn."""
    if indexed is None or isinstance(indexed.found, Unreadable):
        return ""
    if indexed.claim is not None:
        return indexed.claim.owner
    return "@" if indexed.found.queued is not None and not indexed.found.queue_paused else ""


def _is_session(listed: ListedObject) -> bool:
    return FILE_NAME.fullmatch(listed.key) is not None
