"""Declares searches, results and page cursors. Pure."""

import base64
import binascii
from collections.abc import Sequence
from typing import Literal

import msgspec

from search_app.entries import Entry, FoundRole
from search_app.query import Query
from sessions_app.decoding import decode_as
from sessions_app.errors import ValidationFailed
from sessions_app.session import SessionMetadata

IndexState = Literal["ready", "building", "scan"]


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The position after a result, in the order of results: newest sessions first.

    Attributes:
        updated_at: When the session of the result was last changed.
        session_id: The session.
        place: The place of the result's entry in the session.
    """

    updated_at: str
    session_id: str
    place: int

    def is_before(self, metadata: SessionMetadata) -> bool:
        """Return whether the session is that of the cursor or comes after it."""
        return (metadata.updated_at, metadata.session_id) <= (self.updated_at, self.session_id)

    def text(self) -> str:
        """Encode the cursor for clients."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).rstrip(b"=").decode()


def read_cursor(text: str) -> Cursor:
    """Decode a client's cursor.

    Raises:
        ValidationFailed: The cursor is invalid.
    """
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return decode_as(data, Cursor)
    except (binascii.Error, ValueError) as error:
        raise ValidationFailed(
            "cursor must be the next_cursor of a page of results.", field="cursor"
        ) from error


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A search query with filters.

    Attributes:
        query: The query.
        role: Only messages of this role, or only titles or summaries. System prompts are searched
            only if asked for here, because many sessions share one.
        model: Only answers of this model, and other entries of sessions with this model.
        since: Only entries of this time or later (UTC, ISO 8601).
        until: Only entries before this time.
        limit: The maximum number of results.
        cursor: The start of the page.
        session_id: Only this session.
    """

    query: Query
    role: FoundRole | None = None
    model: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int = 20
    cursor: Cursor | None = None
    session_id: str | None = None

    def takes(self, entry: Entry) -> bool:
        """Return whether the entry passes the filters."""
        return (
            (entry.role != "system" if self.role is None else entry.role == self.role)
            and (self.model is None or entry.model == self.model)
            and (self.since is None or entry.timestamp >= self.since)
            and (self.until is None or entry.timestamp < self.until)
        )


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A result: the entry and its session."""

    entry: Entry
    metadata: SessionMetadata

    @property
    def cursor(self) -> Cursor:
        """Return the cursor after the result."""
        return Cursor(self.metadata.updated_at, self.metadata.session_id, self.entry.place)


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A page of results.

    Attributes:
        found: The results, most recently changed sessions first.
        total_estimate: The approximate number of results on all pages.
        index: ``ready``; ``building`` while many sessions are missing; ``scan`` without an index.
        complete: Whether everything up to the end of the page was searched.
        next_cursor: The cursor of the next page; None on the last one.
    """

    found: Sequence[Found]
    total_estimate: int
    index: IndexState
    complete: bool
    next_cursor: Cursor | None = None
