"""Searches sessions: in the index, and by reading those that are stale in it.

So results are always up to date, and a search writes nothing. The index is updated in a separate
thread.
"""

import heapq
from collections.abc import Container, Iterable, Iterator, Sequence

from search_app.index import IndexUnavailable, SearchIndex
from search_app.index_comparison import IndexComparison, compare
from search_app.index_updater import IndexUpdater
from search_app.reader import IndexReader
from search_app.scan import Stopped, scan
from search_app.search_request import Cursor, Found, IndexState, Results, SearchRequest
from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Listing, SessionReader

SCAN_SECONDS = 1.0
"""The time limit for reading sessions, after which the page ends."""
FEW = 100
"""The number of sessions that may be stale in an index that counts as ready."""


class SessionSearch:
    """Searches the sessions of a repository.

    Safe to use from several threads and processes. Calls block for milliseconds, and for up to a
    second while the index is being built.

    Args:
        sessions: The sessions.
        index: The index, which is a cache.
        updater: Updates the index.
        scan_seconds: The time limit of a search for reading sessions.

    Attributes:
        updater: Updates the index.
    """

    def __init__(
        self,
        sessions: SessionReader,
        index: SearchIndex,
        updater: IndexUpdater,
        *,
        scan_seconds: float = SCAN_SECONDS,
    ) -> None:
        self._sessions = sessions
        self._index = index
        self.updater = updater
        self._scan_seconds = scan_seconds

    def search(self, request: SearchRequest) -> Results:
        """Return a page of results, most recently changed sessions first."""
        listing = self._sessions.list()
        if request.session_id is not None:  # which is read: the index is by time
            one = [each for each in listing.sessions if each.session_id == request.session_id]
            return self._search(request, listing, IndexComparison({}, one), None)
        lacks_index = False
        try:
            with self._index.reading() as reader:
                comparison = compare(listing, reader.stamps())
                results = self._search(request, listing, comparison, reader)
        except IndexUnavailable as error:
            lacks_index = error.is_broken or error.is_missing
            comparison = compare(listing, {})
            results = self._search(request, listing, comparison, None)
        if comparison.pending or comparison.gone or lacks_index:
            self.updater.start()
        return results

    def state(self) -> tuple[IndexState, int]:
        """Return the state of the index, and the number of sessions that are stale in it."""
        listing = self._sessions.list()
        try:
            with self._index.reading() as reader:
                pending = compare(listing, reader.stamps()).pending
        except IndexUnavailable:
            return "scan", len(listing.sessions)
        return _state(pending), len(pending)

    def _search(
        self,
        request: SearchRequest,
        listing: Listing,
        comparison: IndexComparison,
        reader: IndexReader | None,
    ) -> Results:
        state = "scan" if reader is None else _state(comparison.pending)
        if not request.query.wanted:
            return Results(found=(), total_estimate=0, index=state, complete=listing.complete)
        pending = {metadata.session_id for metadata in comparison.pending}
        scanned = scan(self._sessions, comparison.pending, request, seconds=self._scan_seconds)
        indexed = _indexed(request, comparison, pending, reader) if reader is not None else ()
        found, end = _page(heapq.merge(scanned, indexed, key=_order, reverse=True), request.limit)
        total = len(found)
        if end is not None or request.cursor is not None:
            share = end.share if isinstance(end, Stopped) else 1.0
            from_scan = sum(one.metadata.session_id in pending for one in found)
            rest = 1 if isinstance(end, Found) else 0
            counted = 0 if reader is None else reader.count(request)
            total = max(total + rest, int(from_scan / max(share, 0.001)) + counted)
        return Results(
            found=found,
            total_estimate=total,
            index=state,
            complete=listing.complete and not isinstance(end, Stopped),
            next_cursor=_next_cursor(found, end),
        )


def _state(pending: Sequence[SessionMetadata]) -> IndexState:
    return "ready" if len(pending) <= FEW else "building"


def _indexed(
    request: SearchRequest,
    comparison: IndexComparison,
    pending: Container[str],
    reader: IndexReader,
) -> Iterator[Found]:
    """Yield the results of the index in sessions that exist and are not stale."""
    for session_id, entry in reader.found(request):
        metadata = comparison.sessions.get(session_id)
        if metadata is not None and session_id not in pending:
            yield Found(entry=entry, metadata=metadata)


def _order(one: Found | Stopped) -> tuple[str, str, float]:
    place = one.entry.place if isinstance(one, Found) else float("inf")
    return one.metadata.updated_at, one.metadata.session_id, place


def _page(
    results: Iterable[Found | Stopped], limit: int
) -> tuple[Sequence[Found], Found | Stopped | None]:
    """Return the results up to the limit, and the next item or None."""
    page: list[Found] = []
    for one in results:
        if isinstance(one, Stopped) or len(page) == limit:
            return page, one
        page.append(one)
    return page, None


def _next_cursor(results: Sequence[Found], end: Found | Stopped | None) -> Cursor | None:
    if isinstance(end, Stopped):
        return end.cursor
    return None if end is None else results[-1].cursor
