"""Searches sessions by reading them, where the index is out of date."""

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from sessions_app.search.entries import entries_of
from sessions_app.search.search_request import Cursor, Found, SearchRequest
from sessions_app.search.source import Source
from sessions_app.session import SessionMetadata

END_OF_SESSION = 1 << 40
"""A place behind all entries of a session."""


class Stopped(msgspec.Struct, frozen=True):
    """The scan took too long; a next page goes on with this session.

    Attributes:
        metadata: The session that was not looked at.
        share: The share of the sessions that was.
    """

    metadata: SessionMetadata
    share: float

    @property
    def cursor(self) -> Cursor:
        """Return the place before the session."""
        return Cursor(self.metadata.updated_at, self.metadata.session_id, END_OF_SESSION)


def scan(
    source: Source,
    sessions: Sequence[SessionMetadata],
    wanted: SearchRequest,
    *,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Found | Stopped]:
    """Yield what is found in sessions, in order, until time is up; at least one is looked at.

    Args:
        source: Reads the sessions.
        sessions: The sessions, those that were changed last first.
        wanted: What is looked for.
        seconds: How long it may take, for all but what the caller does meanwhile.
        clock: What the time is.
    """
    cursor = wanted.cursor
    spent = 0.0
    for number, metadata in enumerate(sessions):
        if cursor is not None and not cursor.is_before(metadata):
            continue
        if spent > seconds:
            yield Stopped(metadata, number / len(sessions))
            return
        begun = clock()
        found = list(_found_in(source, metadata, wanted))
        spent += clock() - begun
        yield from found


def _found_in(source: Source, metadata: SessionMetadata, wanted: SearchRequest) -> Iterator[Found]:
    session = source.read(metadata.session_id, wanted.query)
    if session is None:
        return
    cursor = wanted.cursor
    end = END_OF_SESSION
    if cursor is not None and cursor.session_id == metadata.session_id:
        end = cursor.place
    for entry in reversed(list(entries_of(session))):
        if entry.place < end and wanted.takes(entry) and wanted.query.matches(entry.text):
            yield Found(entry=entry, metadata=metadata)
