"""Keeps session metadata sorted for listings, with cheap updates. Pure."""

import bisect
from collections.abc import Iterable, Mapping

from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Listing, Unreadable

Found = SessionMetadata | Unreadable


class SortedSessions:
    """Holds the result of reading each name: a session's metadata, or why it can't be read.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self.found: dict[str, Found] = {}
        self._sessions: list[SessionMetadata] = []  # by age
        self._unreadable: dict[str, Unreadable] = {}
        self._listing: Listing | None = None

    def change(self, sessions: Mapping[str, Found], removed: Iterable[str] = ()) -> None:
        """Update some names and remove others."""
        for name in (*removed, *sessions):
            self._forget(name)
        self.found |= sessions
        self._unreadable |= {
            name: item for name, item in sessions.items() if isinstance(item, Unreadable)
        }
        self._insert([item for item in sessions.values() if isinstance(item, SessionMetadata)])

    def listing(self, *, complete: bool = True) -> Listing:
        """Return the readable sessions, most recently updated first, and the others by name."""
        if self._listing is None or self._listing.complete != complete:
            self._listing = self._arrange(complete=complete)
        return self._listing

    def _insert(self, sessions: list[SessionMetadata]) -> None:
        self._listing = None
        if len(sessions) > len(self._sessions) // 16:
            self._sessions += sessions
            self._sessions.sort(key=age)
            return
        for metadata in sessions:
            bisect.insort(self._sessions, metadata, key=age)

    def _forget(self, name: str) -> None:
        self._listing = None
        found = self.found.pop(name, None)
        self._unreadable.pop(name, None)
        if isinstance(found, SessionMetadata):
            del self._sessions[bisect.bisect_left(self._sessions, age(found), key=age)]

    def _arrange(self, *, complete: bool) -> Listing:
        return Listing(
            sessions=tuple(reversed(self._sessions)),
            unreadable=tuple(sorted(self._unreadable.values(), key=lambda item: item.file)),
            complete=complete,
        )


def age(metadata: SessionMetadata) -> tuple[str, str]:
    """Return the sort key of sessions; ids break ties, so that pages never overlap."""
    return metadata.updated_at, metadata.session_id
