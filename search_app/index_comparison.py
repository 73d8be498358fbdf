"""Finds the sessions that are stale in an index."""

import threading
from collections.abc import Mapping, Sequence

import msgspec

from search_app.index_state import IndexState
from search_app.reader import IndexReader
from search_app.source import Source
from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Listing
from sessions_app.store.sorted_sessions import age


class IndexComparison(msgspec.Struct, frozen=True):
    """The sessions to be searched, compared with the index.

    Attributes:
        sessions: All sessions by their ids.
        pending: The sessions that are missing or stale in the index, in the order of results.
        gone: The ids of indexed sessions that do not exist any more.
        outdated: The ids of pending sessions of which the index has an earlier state.
    """

    sessions: Mapping[str, SessionMetadata]
    pending: Sequence[SessionMetadata]
    gone: Sequence[str] = ()
    outdated: Sequence[str] = ()


class IndexComparer:
    """Compares sessions with the index incrementally, checking only changes since the last time."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._listing: Listing | None = None
        self._by_identity: dict[int, SessionMetadata] = {}
        self._sessions: dict[str, SessionMetadata] = {}
        self._stamps: dict[str, str | None] = {}
        self._state: IndexState | None = None
        self._indexed: dict[str, str] = {}
        self._doubtful: set[str] = set()  # those that are to be compared
        self._pending: set[str] = set()
        self._gone: set[str] = set()
        self._comparison = IndexComparison({}, ())

    def compare(self, listing: Listing, reader: IndexReader | None) -> IndexComparison:
        """Compare the sessions with the index; without an index all are pending."""
        if reader is None:
            sessions = {metadata.session_id: metadata for metadata in listing.sessions}
            return IndexComparison(sessions, listing.sessions)
        with self._lock:
            if listing is not self._listing or reader.state != self._state:
                self._read(reader)
                self._take(listing)
                self._compare()
                self._comparison = IndexComparison(
                    self._sessions.copy(),
                    self._in_order(listing),
                    tuple(self._gone) if listing.complete else (),
                    tuple(self._pending & self._indexed.keys()),
                )
            return self._comparison

    def _read(self, reader: IndexReader) -> None:
        """Read the changes of the index."""
        known, now = self._state, reader.state
        if known == now:
            return
        if (
            known is not None
            and (known.generation, known.removals) == (now.generation, now.removals)
            and known.changes <= now.changes
        ):
            news = reader.stamps(since=known.changes)
            self._indexed |= news
            self._doubtful |= news.keys()
        else:
            before, self._indexed = self._indexed, reader.stamps()
            self._doubtful |= before.keys() | self._indexed.keys()
        self._state = now

    def _take(self, listing: Listing) -> None:
        """Take over the current sessions."""
        if listing is self._listing:
            return
        sessions = listing.sessions
        # Unchanged sessions are the same objects, so most of 10,000 are compared in C.
        current = dict(zip(map(id, sessions), sessions, strict=True))
        for identity in self._by_identity.keys() - current.keys():
            session_id = self._by_identity[identity].session_id
            self._doubtful.add(session_id)
            self._sessions.pop(session_id, None)
            self._stamps.pop(session_id, None)
        for identity in current.keys() - self._by_identity.keys():
            metadata = current[identity]
            self._doubtful.add(metadata.session_id)
            self._sessions[metadata.session_id] = metadata
            self._stamps[metadata.session_id] = self._source.stamp(metadata)
        self._by_identity = current  # holds them, so that no other one gets their identity
        self._listing = listing

    def _compare(self) -> None:
        for session_id in self._doubtful:
            stamp = self._stamps.get(session_id)
            indexed = self._indexed.get(session_id)
            is_there = session_id in self._sessions
            _put(self._pending, session_id, when=is_there and (stamp is None or stamp != indexed))
            _put(self._gone, session_id, when=indexed is not None and not is_there)
        self._doubtful.clear()

    def _in_order(self, listing: Listing) -> Sequence[SessionMetadata]:
        pending = self._pending
        if len(pending) > len(listing.sessions) // 16:
            return [metadata for metadata in listing.sessions if metadata.session_id in pending]
        found = [self._sessions[session_id] for session_id in pending]
        return sorted(found, key=age, reverse=True)


def _put(members: set[str], member: str, *, when: bool) -> None:
    if when:
        members.add(member)
    else:
        members.discard(member)
