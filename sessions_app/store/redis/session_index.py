"""Keeps an index of the sessions of an object store in Redis, and all of it in memory.

A listing asks only for what changed since the last one. What Redis forgot, or was not told, is read
from the objects again (docs/decisions/0067).
"""

import logging
import secrets
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from sessions_app.errors import StorageError
from sessions_app.session import SessionMetadata
from sessions_app.store.listing import FILE_NAME
from sessions_app.store.objects.heads import read_indexed
from sessions_app.store.objects.indexed import SUFFIX, Indexed, from_entry, to_entry
from sessions_app.store.objects.store import ListedObject, ObjectStore
from sessions_app.store.objects.tags import same_tag
from sessions_app.store.redis.connection import RedisConnection
from sessions_app.store.redis.index_entries import IndexEntries, Look
from sessions_app.store.redis.known_sessions import KnownSessions
from sessions_app.store.repository import Claim, Listing

logger = logging.getLogger(__name__)

READERS = 32


class IndexTimes(msgspec.Struct, frozen=True, kw_only=True):
    """When an index looks after itself.

    Attributes:
        dirty_ms: The age of a mark at which nobody is expected to tell of its write any more.
        checked_ms: The age of the last comparison with the objects at which it is made again.
        lease_ms: The time that a step of a comparison may take before another process begins anew.
        wait_seconds: The time that a listing waits for what is read for it.
    """

    dirty_ms: int = 10_000
    checked_ms: int = 3_600_000
    lease_ms: int = 60_000
    wait_seconds: float = 2.0


TIMES = IndexTimes()


class RedisSessionIndex:
    """An index of sessions; implements ``SessionIndex``. Opens nothing before its first call.

    Args:
        connection: Redis, under the prefix of these sessions.
        store: The objects of the sessions.
        note_claim: Told of every claim that a comparison finds: nobody may know of it, and that
            its process is dead.
        times: When it looks after itself.
    """

    def __init__(
        self,
        connection: RedisConnection,
        store: ObjectStore,
        *,
        note_claim: Callable[[Claim], object],
        times: IndexTimes = TIMES,
    ) -> None:
        self._entries = IndexEntries(connection, store.name)
        self._known = KnownSessions(self._entries, due_after_ms=times.dirty_ms)
        self._store = store
        self._note_claim = note_claim
        self._times = times
        self._lock = threading.Lock()
        self._untold: set[str] = set()

    def writing(self, session_id: str) -> str:
        """Mark the session, whose object is about to be written."""
        mark = secrets.token_hex(8)
        try:
            self._entries.mark(session_id, mark)
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
        """Note what was written."""
        self._tell(session_id, mark, Indexed(etag=etag, found=metadata, claim=claim))

    def removed(self, session_id: str, mark: str) -> None:
        """Note that the object is gone."""
        self._tell(session_id, mark, None)

    def unwritten(self, session_id: str, mark: str) -> None:
        """Note that nothing was written."""
        try:
            self._entries.unmark(session_id, mark)
        except StorageError:  # then the session is read again for nothing
            logger.warning("the index of sessions is out of reach", exc_info=True)

    def listing(self) -> Listing:
        """Return what is known of all sessions, however little that is."""
        try:
            look = self._look(may_wait=True)
        except StorageError:
            logger.warning("the index of sessions is out of reach", exc_info=True)
            return self._known.listing(complete=False)
        return self._known.listing(complete=bool(look.build))

    def keep_up(self) -> None:
        """Do what is due when nobody asks for lists: a chore of every process."""
        self._look(may_wait=False)

    def compare(self) -> None:
        """Compare all entries with the objects now, after whoever does it already.

        Raises:
            StorageError: The objects or the index are out of reach.
        """
        while (token := self._begin()) is None:
            threading.Event().wait(0.1)
        self._compare(token)
        self._known.refresh()

    def _tell(self, session_id: str, mark: str, indexed: Indexed | None) -> None:
        try:
            self._entries.wrote(session_id, mark, _entry_of(indexed))
        except StorageError:
            logger.warning("the index of sessions was not told of a write", exc_info=True)
            self._known.put(session_id, indexed)
            with self._lock:
                self._untold.add(session_id)

    def _look(self, *, may_wait: bool) -> Look:
        """Bring what is known up to date, and have done what is due."""
        look, due = self._known.refresh()
        with self._lock:
            untold, self._untold = self._untold, set()
        if again := {*due, *untold}:
            self._beside(partial(self._read_again, again), waits=may_wait)
        elif not self._is_unchecked(look):
            return look
        if self._is_unchecked(look) and (token := self._begin()) is not None:
            self._beside(partial(self._compare, token), waits=may_wait and not len(self._known))
        return self._known.refresh()[0]

    def _is_unchecked(self, look: Look) -> bool:
        return not look.build or look.unchecked_ms > self._times.checked_ms

    def _beside(self, work: Callable[[], None], *, waits: bool) -> None:
        """Do something in a thread; it is not waited for any longer than a list may take."""

        def quietly() -> None:
            try:
                work()
            except StorageError:  # what is due stays due
                logger.warning("the index of sessions could not look at objects", exc_info=True)
            except Exception:
                logger.exception("the index of sessions failed")

        thread = threading.Thread(target=quietly, name="session-index", daemon=True)
        thread.start()
        if waits:
            thread.join(self._times.wait_seconds)

    def _read_again(self, session_ids: Iterable[str]) -> None:
        """Read sessions of which a write was not told, or not to its end."""
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
        """Read a session's object, and keep what it tells unless it is being written."""
        mark = secrets.token_hex(8)
        marks = self._entries.mark(session_id, mark)
        try:
            indexed = read_indexed(self._store, session_id)
        except StorageError:
            self._entries.unmark(session_id, mark)
            raise
        entry = _entry_of(indexed)
        self._entries.read_again(session_id, mark, entry, marks if settles else ())
        if indexed is not None:
            self._hint(indexed)

    def _begin(self) -> str | None:
        return self._entries.begin_rebuild(lease_ms=self._times.lease_ms)

    def _compare(self, token: str) -> None:
        """Bring the index up to date with the objects; let another do it who took it over."""
        complete = False
        try:
            complete = self._compare_all(token)
        finally:
            self._entries.end_rebuild(token, complete=complete)

    def _compare_all(self, token: str) -> bool:
        # Not what is known here: Redis may have forgotten some of it.
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
                if before is None or not same_tag(before.etag, listed.etag):
                    differing.append(session_id)
                else:
                    self._hint(before)
        differing += known.keys() - present
        with ThreadPoolExecutor(READERS) as readers:
            for start in range(0, len(differing), READERS):
                if not self._entries.go_on(token, lease_ms=self._times.lease_ms):
                    return False
                list(readers.map(self._read, differing[start : start + READERS]))
        return True

    def _hint(self, indexed: Indexed) -> None:
        """Tell of the claim that is part of the object."""
        claim = indexed.claim
        if claim is not None and claim.turn_id and claim.owner:
            self._note_claim(claim)


def _entry_of(indexed: Indexed | None) -> bytes:
    return b"" if indexed is None else to_entry(indexed)


def _is_session(listed: ListedObject) -> bool:
    return FILE_NAME.fullmatch(listed.key) is not None
