"""Searches sessions by reading them, if the index is stale."""

import time
from collections.abc import Iterator, Sequence

import msgspec

from search_app.entries import entries_of
from search_app.search_request import Cursor, Found, SearchRequest
from sessions_app.errors import SessionCorrupt, SessionNotFound, StorageError
from sessions_app.session import Session, SessionMetadata
from sessions_app.store.repository import SessionReader

END_OF_SESSION = 1 << 40
"""A place after all entries of a session."""


class Stopped(msgspec.Struct, frozen=True):
    """The end of a scan that ran out of time; the next page continues with this session.

    Attributes:
        metadata: The first session not searched.
        share: The share of the sessions searched.
    """

    metadata: SessionMetadata
    share: float

    @property
    def cursor(self) -> Cursor:
        """Return the cursor before the session."""
        return Cursor(self.metadata.updated_at, self.metadata.session_id, END_OF_SESSION)


def scan(
    reader: SessionReader,
    sessions: Sequence[SessionMetadata],
    request: SearchRequest,
    *,
    seconds: float,
) -> Iterator[Found | Stopped]:
    """Yield results in order until the time is up; search at least one session.

    Args:
        reader: Reads the sessions.
        sessions: The sessions, most recently changed first.
        request: The search.
        seconds: The time limit, excluding time spent by the caller.
    """
    cursor = request.cursor
    spent = 0.0
    for number, metadata in enumerate(sessions):
        if cursor is not None and not cursor.is_before(metadata):
            continue
        if spent > seconds:
            yield Stopped(metadata, number / len(sessions))
            return
        begun = time.monotonic()
        found = list(_found_in(reader, metadata, request))
        spent += time.monotonic() - begun
        yield from found


def read_session(reader: SessionReader, session_id: str) -> Session | None:
    """Return the session; None if it can't be read."""
    try:
        return reader.load(session_id)
    except (SessionNotFound, SessionCorrupt, StorageError):
        return None


def _found_in(
    reader: SessionReader, metadata: SessionMetadata, request: SearchRequest
) -> Iterator[Found]:
    session = read_session(reader, metadata.session_id)
    if session is None:
        return
    cursor = request.cursor
    end = END_OF_SESSION
    if cursor is not None and cursor.session_id == metadata.session_id:
        end = cursor.place
    for entry in reversed(list(entries_of(session))):
        if entry.place < end and request.takes(entry) and request.query.matches(entry.text):
            yield Found(entry=entry, metadata=metadata)
