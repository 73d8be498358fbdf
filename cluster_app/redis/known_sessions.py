"""Caches a session index in memory, as of the last read from Redis."""

import threading
from collections.abc import Iterable, Mapping, Sequence

from cluster_app.objects.indexed import Indexed, from_entry
from cluster_app.redis.index_entries import FIRST, IndexChanges, IndexEntries
from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Claim, Listing, listing_of


class KnownSessions:
    """Caches the entries of an index. Thread-safe.

    Args:
        entries: The index.
        due_after_ms: The age of a write's mark at which the session is read again.
    """

    def __init__(self, entries: IndexEntries, *, due_after_ms: int) -> None:
        self._entries = entries
        self._due_after_ms = due_after_ms
        self._lock = threading.Lock()
        self._indexed: dict[str, Indexed] = {}
        self._claims: dict[str, Claim] = {}
        self._listing: Listing | None = None
        self._build: str | None = None
        self._last = FIRST
        self._history: str | None = None

    def __len__(self) -> int:
        return len(self._indexed)

    def listing(self, *, complete: bool) -> Listing:
        """Return the cached entries as a listing."""
        with self._lock:
            if self._listing is None or self._listing.complete != complete:
                stamps = {
                    session_id: indexed.etag
                    for session_id, indexed in self._indexed.items()
                    if isinstance(indexed.found, SessionMetadata)
                }
                files = (indexed.found for indexed in self._indexed.values())
                self._listing = listing_of(files, stamps, complete=complete)
            return self._listing

    def claims(self) -> Sequence[Claim]:
        """Return the claims in the cached entries."""
        with self._lock:
            return tuple(self._claims.values())

    def refresh(self) -> tuple[IndexChanges, Sequence[str]]:
        """Update the cache; return the changes of the index and the sessions to be read again.

        Until the index is built, no cached entries are dropped.

        Raises:
            StorageError: The index can't be reached.
        """
        with self._lock:
            look = self._entries.look(self._last, due_after_ms=self._due_after_ms)
            if look.is_lost and look.history == self._history:  # else it is doubted anyway
                self._entries.doubt()
            self._history = look.history
            if look.is_continued and look.build == self._build:
                changed = self._entries.some([*dict.fromkeys(look.changed)])
                broken = self._take(changed.items())
                self._last = look.last
            else:
                broken = self._load(replaces=bool(look.build))
                self._build = look.build
            return look, [*look.due, *broken]

    def put(self, session_id: str, indexed: Indexed | None) -> None:
        """Cache an entry that could not be stored in the index."""
        with self._lock:
            self._change({session_id: indexed})

    def _load(self, *, replaces: bool) -> Sequence[str]:
        place = (
            self._entries.place()
        )  # before the entries, so that concurrent changes come after it
        entries = dict(self._entries.all())
        before = self._indexed.keys() - entries.keys() if replaces else ()
        broken = self._take([*entries.items(), *((session_id, None) for session_id in before)])
        self._last = place
        return broken

    def _take(self, entries: Iterable[tuple[str, bytes | None]]) -> Sequence[str]:
        """Decode and cache entries; return the sessions of invalid ones."""
        changed: dict[str, Indexed | None] = {}
        broken: list[str] = []
        for session_id, entry in entries:
            changed[session_id] = from_entry(entry, session_id) if entry is not None else None
            if entry is not None and changed[session_id] is None:
                broken.append(session_id)
        self._change(changed)
        return broken

    def _change(self, changed: Mapping[str, Indexed | None]) -> None:
        if changed:
            self._listing = None
        for session_id, indexed in changed.items():
            self._claims.pop(session_id, None)
            if indexed is None:
                self._indexed.pop(session_id, None)
            else:
                self._indexed[session_id] = indexed
                if (claim := indexed.claim) is not None and claim.turn_id and claim.owner:
                    self._claims[session_id] = claim
