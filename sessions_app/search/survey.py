"""Finds out which sessions an index does not know as they are."""

import threading
from collections.abc import Mapping, Sequence

import msgspec

from sessions_app.search.reader import IndexReader
from sessions_app.search.source import Source
from sessions_app.search.standing import Standing
from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Listing


class Survey(msgspec.Struct, frozen=True):
    """The sessions that can be searched.

    Attributes:
        sessions: All sessions by their ids.
        pending: Those that the index does not know as they are, in the order of results.
        gone: The ids of those that it knows and that are not there any more.
    """

    sessions: Mapping[str, SessionMetadata]
    pending: Sequence[SessionMetadata]
    gone: Sequence[str] = ()


class Surveyor:
    """Finds out what the index does not know, looking only at what changed since the last time."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._stamps: dict[str, tuple[SessionMetadata, str | None]] = {}
        self._indexed: dict[str, str] = {}
        self._standing: Standing | None = None
        self._listing: Listing | None = None
        self._survey = Survey({}, ())

    def survey(self, listing: Listing, reader: IndexReader | None) -> Survey:
        """Return what there is to search; all of it is pending without an index."""
        if reader is None:
            sessions = {metadata.session_id: metadata for metadata in listing.sessions}
            return Survey(sessions, listing.sessions)
        with self._lock:
            if listing is not self._listing or reader.standing != self._standing:
                self._read(reader)
                self._survey = self._compare(listing)
                self._listing = listing
            return self._survey

    def _read(self, reader: IndexReader) -> None:
        known, now = self._standing, reader.standing
        if known == now:
            return
        if (
            known is not None
            and (known.generation, known.removals) == (now.generation, now.removals)
            and known.changes <= now.changes
        ):
            self._indexed |= reader.stamps(since=known.changes)
        else:
            self._indexed = reader.stamps()
        self._standing = now

    def _compare(self, listing: Listing) -> Survey:
        stamps: dict[str, tuple[SessionMetadata, str | None]] = {}
        pending = []
        for metadata in listing.sessions:
            session_id = metadata.session_id
            known = self._stamps.get(session_id)
            if known is None or known[0] is not metadata:  # it was read again
                known = (metadata, self._source.stamp(metadata))
            stamps[session_id] = known
            if known[1] is None or self._indexed.get(session_id) != known[1]:
                pending.append(metadata)
        self._stamps = stamps
        gone = [key for key in self._indexed if key not in stamps] if listing.complete else []
        return Survey({key: value[0] for key, value in stamps.items()}, pending, gone)
