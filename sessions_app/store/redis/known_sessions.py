"""Holds a session index in memory, as it was when Redis was last read."""

import threading
from collections.abc import Iterable, Mapping, Sequence

from sessions_app.store.objects.indexed import Indexed, from_entry
from sessions_app.store.redis.index_entries import FIRST, IndexEntries, Look
from sessions_app.store.repository import Listing
from sessions_app.store.sorted_sessions import Found, SortedSessions


class KnownSessions:
    """Knows what the index says of all sessions; safe to use from several threads.

    Args:
        entries: The index.
        due_after_ms: The age at which a mark of a write is due to be looked after.
    """

    def __init__(self, entries: IndexEntries, *, due_after_ms: int) -> None:
        self._entries = entries
        self._due_after_ms = due_after_ms
        self._lock = threading.Lock()
        self._indexed: dict[str, Indexed] = {}
        self._sessions = SortedSessions()
        self._build: str | None = None
        self._last = FIRST

    def __len__(self) -> int:
        return len(self._indexed)

    def listing(self, *, complete: bool) -> Listing:
        """Return what is known, as a listing."""
        with self._lock:
            return self._sessions.listing(complete=complete)

    def refresh(self) -> tuple[Look, Sequence[str]]:
        """Take over what changed; return the look at it, and the sessions to be read again.

        While the index is not made, nothing is forgotten that was known before.

        Raises:
            StorageError: The index is out of reach.
        """
        with self._lock:
            look = self._entries.look(self._last, due_after_ms=self._due_after_ms)
            if look.is_lost:
                self._entries.doubt()
            if look.is_continued and look.build == self._build:
                changed = self._entries.some([*dict.fromkeys(look.changed)])
                broken = self._take(changed.items())
                self._last = look.last
            else:
                broken = self._load(replaces=bool(look.build))
                self._build = look.build
            return look, [*look.due, *broken]

    def put(self, session_id: str, indexed: Indexed | None) -> None:
        """Know something that the index was not told."""
        with self._lock:
            self._change({session_id: indexed})

    def _load(self, *, replaces: bool) -> Sequence[str]:
        place = self._entries.place()  # before the entries: what changes meanwhile comes after it
        entries = dict(self._entries.all())
        before = self._indexed.keys() - entries.keys() if replaces else ()
        broken = self._take([*entries.items(), *((session_id, None) for session_id in before)])
        self._last = place
        return broken

    def _take(self, entries: Iterable[tuple[str, bytes | None]]) -> Sequence[str]:
        """Take over entries, and return the sessions of those that can't be read."""
        changed: dict[str, Indexed | None] = {}
        broken: list[str] = []
        for session_id, entry in entries:
            changed[session_id] = from_entry(entry, session_id) if entry is not None else None
            if entry is not None and changed[session_id] is None:
                broken.append(session_id)
        self._change(changed)
        return broken

    def _change(self, changed: Mapping[str, Indexed | None]) -> None:
        found: dict[str, Found] = {}
        gone: list[str] = []
        for session_id, indexed in changed.items():
            if indexed is None:
                gone.append(session_id)
                self._indexed.pop(session_id, None)
            else:
                found[session_id] = indexed.found
                self._indexed[session_id] = indexed
        if changed:
            self._sessions.change(found, gone)
