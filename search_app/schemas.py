"""Declares the parameters and the response of the search."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

from ninja import Schema
from pydantic import BaseModel, ConfigDict, Field

from search_app.entries import FoundRole
from search_app.query import Query, read_query
from search_app.search_request import Found, IndexState, Results, SearchRequest, read_cursor
from search_app.snippets import score, snippet
from sessions_app.errors import ValidationFailed

QUERY_LENGTH = 500
MOST_SEARCHES = 32
"""The maximum phrases and prefixes of a query: texts are looked through for each of them."""
_DATE_LENGTH = len("2026-01-31")


class SearchParams(Schema):
    """The words of a search, and the messages in which they are looked for."""

    q: str = Field(
        min_length=1,
        max_length=QUERY_LENGTH,
        description='Words, all of them; `"in a row"`, `-without`, `begin*`',
    )
    role: FoundRole | None = Field(
        None, description="Only these; system prompts are searched with `system` alone"
    )
    model: str | None = Field(
        None, max_length=300, description="Only its answers, and the rest of sessions that have it"
    )
    since: str | None = Field(
        None, alias="from", max_length=40, description="Only what is as old or newer: ISO 8601"
    )
    until: str | None = Field(
        None, alias="to", max_length=40, description="Only what is older; a date counts whole"
    )
    limit: Annotated[int, Field(ge=1, le=100)] = Field(20, description="How many at most")
    cursor: str | None = Field(
        None, max_length=2000, description="`next_cursor` of the page before"
    )

    def request(self) -> SearchRequest:
        """Convert the parameters to a search.

        Raises:
            ValidationFailed: A time or the cursor is invalid, or the query has too many phrases.
        """
        return SearchRequest(
            query=bounded_query(self.q, "q"),
            role=self.role,
            model=self.model or None,
            since=moment(self.since, "from"),
            until=moment(self.until, "to", ends=True),
            limit=self.limit,
            cursor=None if self.cursor is None else read_cursor(self.cursor),
        )


class SnippetPieceOut(BaseModel):
    """A piece of a snippet."""

    text: str
    match: bool = Field(description="Whether it was looked for: show it highlighted")


class FoundSessionOut(BaseModel):
    """The session of a result."""

    title: str | None
    preview: str | None
    model: str
    updated_at: str


class FoundOut(BaseModel):
    """A result: a message, or the title or summary of a session."""

    session_id: str
    message_index: int | None = Field(description="Among all messages; null for a title or summary")
    message_id: str | None
    role: FoundRole
    timestamp: str = Field(description="UTC, ISO 8601; of titles and summaries the session's")
    snippet: str = Field(description="Plain text around the first match; never HTML")
    pieces: list[SnippetPieceOut] = Field(description="The snippet, with what was looked for")
    score: float = Field(description="How well it fits; results are not ordered by it")
    session: FoundSessionOut


_EXAMPLE: dict[str, Any] = {
    "results": [
        {
            "session_id": "a1b2c3d4e5",
            "message_index": 3,
            "message_id": "0123456789",
            "role": "assistant",
            "timestamp": "2026-01-15T10:35:00.000000+00:00",
            "snippet": "… in Python, use asyncio for that …",
            "pieces": [
                {"text": "… in Python, use ", "match": False},
                {"text": "asyncio", "match": True},
                {"text": " for that …", "match": False},
            ],
            "score": 0.42,
            "session": {
                "title": "Async patterns",
                "preview": "How do I wait for two things at once?",
                "model": "qwen3:14b",
                "updated_at": "2026-01-15T10:35:00.000000+00:00",
            },
        }
    ],
    "total_estimate": 1,
    "took_ms": 1.4,
    "index": "ready",
    "complete": True,
    "next_cursor": None,
}


class SearchOut(BaseModel):
    """A page of results."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    results: list[FoundOut]
    total_estimate: int = Field(
        description="About how many there are on all pages; at least those found so far"
    )
    took_ms: float
    index: IndexState = Field(
        description="`building` while much is not indexed yet, `scan` where there is no index: "
        "sessions are read then, for a second a page"
    )
    complete: bool = Field(
        description="False when the page ended early, or more sessions are there than known yet"
    )
    next_cursor: str | None = Field(
        description="`cursor` of the next page, if there is one; also of a page without results"
    )


def bounded_query(text: str, name: str) -> Query:
    """Parse the query of a field; raise ``ValidationFailed`` if it has too many phrases."""
    query = read_query(text)
    if query.searches() > MOST_SEARCHES:
        raise ValidationFailed(
            f"A query has at most {MOST_SEARCHES} phrases and prefixes; also words like "
            "well-known, or of several characters in Chinese or Japanese, are phrases.",
            field=name,
            limit=MOST_SEARCHES,
        )
    return query


def results_to_json(results: Results, query: Query, seconds: float) -> dict[str, Any]:
    """Convert a page of results to JSON-compatible values."""
    cursor = results.next_cursor
    return {
        "results": [_found_to_json(found, query) for found in results.found],
        "total_estimate": results.total_estimate,
        "took_ms": round(seconds * 1000, 2),
        "index": results.index,
        "complete": results.complete,
        "next_cursor": None if cursor is None else cursor.text(),
    }


def _found_to_json(result: Found, query: Query) -> dict[str, Any]:
    entry, metadata = result.entry, result.metadata
    pieces = snippet(entry.text, query)
    return {
        "session_id": metadata.session_id,
        "message_index": entry.message_index,
        "message_id": entry.message_id,
        "role": entry.role,
        "timestamp": entry.timestamp,
        "snippet": "".join(piece.text for piece in pieces),
        "pieces": [{"text": piece.text, "match": piece.match} for piece in pieces],
        "score": score(entry, query),
        "session": {
            "title": metadata.title,
            "preview": metadata.preview,
            "model": metadata.model,
            "updated_at": metadata.updated_at,
        },
    }


def moment(text: str | None, name: str, *, ends: bool = False) -> str | None:
    """Convert a field's time to the format of messages; of a date the beginning, or its end.

    Raises:
        ValidationFailed: It is no time.
    """
    if not text:
        return None
    try:
        if len(text) == _DATE_LENGTH:
            day = date.fromisoformat(text) + timedelta(days=ends)
            at = datetime.combine(day, time(), UTC)
        else:
            at = datetime.fromisoformat(text)
        at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValidationFailed(
            f"{name} must be a date or a time in ISO 8601: 2026-01-31 or 2026-01-31T09:00:00Z.",
            field=name,
        ) from error
    return at.isoformat(timespec="microseconds")
