"""Declares a search and its results, with the cursor between pages. Pure."""

import base64
import binascii
from collections.abc import Sequence
from typing import Literal

import msgspec

from sessions_app.decoding import decode_as
from sessions_app.errors import ValidationFailed
from sessions_app.search.entries import Entry, FoundRole
from sessions_app.search.query import Query
from sessions_app.session import SessionMetadata

IndexState = Literal["ready", "building", "scan"]


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The place behind a result, in the order of results: newest sessions first.

    Attributes:
        updated_at: When the session of the result was last changed.
        session_id: The session.
        place: The place of the result in it.
        index: The index that knew the result's row; empty for none.
        row: That row.
    """

    updated_at: str
    session_id: str
    place: int
    index: str = ""
    row: int = 0

    def is_before(self, metadata: SessionMetadata) -> bool:
        """Return whether the session comes after the one of the cursor, or is that one."""
        return (metadata.updated_at, metadata.session_id) <= (self.updated_at, self.session_id)

    def text(self) -> str:
        """Return the cursor as clients get it."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).rstrip(b"=").decode()


def read_cursor(text: str) -> Cursor:
    """Return the cursor that a client sent.

    Raises:
        ValidationFailed: It is none.
    """
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return decode_as(data, Cursor)
    except (binascii.Error, ValueError) as error:
        raise ValidationFailed(
            "cursor must be the next_cursor of a page of results.", field="cursor"
        ) from error


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A search: words, and the messages in which they are looked for.

    Attributes:
        query: What is looked for.
        role: Only messages of this role, or only titles or summaries. System prompts are searched
            with this alone: many sessions share one.
        model: Only answers of this model, and what else is in sessions that have it.
        since: Only what was said then or later (UTC, ISO 8601).
        until: Only what was said before.
        limit: How many results at most.
        cursor: Where the page begins.
    """

    query: Query
    role: FoundRole | None = None
    model: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int = 20
    cursor: Cursor | None = None

    def takes(self, entry: Entry) -> bool:
        """Return whether the entry is among those that are searched."""
        return (
            (entry.role != "system" if self.role is None else entry.role == self.role)
            and (self.model is None or entry.model == self.model)
            and (self.since is None or entry.timestamp >= self.since)
            and (self.until is None or entry.timestamp < self.until)
        )


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A result: the entry, its session, and the index's row for it."""

    entry: Entry
    metadata: SessionMetadata
    index: str = ""
    row: int = 0

    @property
    def cursor(self) -> Cursor:
        """Return the place behind it."""
        return Cursor(
            self.metadata.updated_at,
            self.metadata.session_id,
            self.entry.place,
            self.index,
            self.row,
        )


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A page of results.

    Attributes:
        found: The results, those in sessions that were changed last first.
        total_estimate: About how many there are on all pages.
        index: ``ready``; ``building`` while much is not in it yet; ``scan`` where there is none.
        complete: Whether everything up to the end of the page was looked at, and is known.
        next_cursor: Where the next page begins; None on the last one.
    """

    found: Sequence[Found]
    total_estimate: int
    index: IndexState
    complete: bool
    next_cursor: Cursor | None = None
