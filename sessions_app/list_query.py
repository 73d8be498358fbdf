"""Sorts and filters a list of sessions, page by page. Pure.

Pages use keyset pagination: the cursor is the sort key of the last session of a page, so sessions
created, changed or deleted meanwhile do not shift later pages.
"""

import base64
import binascii
import bisect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

import msgspec

from sessions_app.decoding import decode_as
from sessions_app.errors import ValidationFailed
from sessions_app.messages import NO_EXTRA
from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Listing, Unreadable

Sort = Literal["updated", "created", "title"]
Order = Literal["asc", "desc"]
State = Literal["running", "awaiting_approval", "idle"]
"""The states of a session: its turn runs or waits for an approval, or nothing goes on."""
_Place = tuple[str, str]

_PLACES: Mapping[Sort, Callable[[SessionMetadata], _Place]] = {
    "updated": lambda metadata: (metadata.updated_at, metadata.session_id),
    "created": lambda metadata: (metadata.created_at, metadata.session_id),
    "title": lambda metadata: (
        (metadata.title or metadata.preview or "").casefold(),
        metadata.session_id,
    ),
}
"""The sort key of each order; ids break ties."""


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The filters, order and page of a list of sessions.

    Attributes:
        q: Only those with this text in title, preview, summary or topics, ignoring case.
        pinned: Only pinned or only unpinned ones; None for both.
        archived: Only archived or only others; None for both.
        metadata: Only those whose client metadata have these values, compared as text.
        only: A further filter; None for all.
        sort: The sort field; by title, sessions without one are sorted by their preview.
        order: The direction; None for newest first, and titles from A to Z.
        limit: The maximum number of sessions; None for all.
        offset: The number of sessions to skip.
        cursor: The ``next_cursor`` of the previous page.
    """

    q: str = ""
    pinned: bool | None = None
    archived: bool | None = None
    metadata: Mapping[str, str] = NO_EXTRA
    only: Callable[[SessionMetadata], bool] | None = None
    sort: Sort = "updated"
    order: Order | None = None
    limit: int | None = None
    offset: int = 0
    cursor: str | None = None

    @property
    def descends(self) -> bool:
        """Return whether the order is descending."""
        return (self.order or ("asc" if self.sort == "title" else "desc")) == "desc"


class ListOptions(TypedDict, total=False):
    """The further fields of a ``ListQuery``."""

    pinned: bool | None
    archived: bool | None
    metadata: Mapping[str, str]
    only: Callable[[SessionMetadata], bool] | None
    sort: Sort
    order: Order | None
    cursor: str | None


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions.

    Attributes:
        sessions: The metadata of the sessions on this page.
        total: The number of matching sessions on all pages.
        unreadable: Every session file that can't be read, and why.
        complete: Whether none are missing, as in ``Listing``.
        next_cursor: The cursor of the next page; None on the last one.
    """

    sessions: Sequence[SessionMetadata]
    total: int
    unreadable: Sequence[Unreadable] = ()
    complete: bool = True
    next_cursor: str | None = None


def page_of(listing: Listing, query: ListQuery) -> SessionPage:
    """Return a page of the matching sessions of a listing.

    Raises:
        ValidationFailed: The cursor is invalid for this order.
    """
    found = _matching(_ordered(listing, query), query)
    first = query.offset
    if query.cursor is not None:
        first += _after(found, _place_in(query.cursor, query), query)
    end = len(found) if query.limit is None else min(first + query.limit, len(found))
    return SessionPage(
        sessions=found[first:end],
        total=len(found),
        unreadable=listing.unreadable,
        complete=listing.complete,
        next_cursor=_cursor(found[end - 1], query) if first < end < len(found) else None,
    )


def _ordered(listing: Listing, query: ListQuery) -> Sequence[SessionMetadata]:
    if query.sort == "updated":  # as listings are, the newest first
        return listing.sessions if query.descends else listing.sessions[::-1]
    return sorted(listing.sessions, key=_PLACES[query.sort], reverse=query.descends)


def _matching(sessions: Sequence[SessionMetadata], query: ListQuery) -> Sequence[SessionMetadata]:
    wanted = query.q.strip().casefold()
    if wanted:
        sessions = [one for one in sessions if wanted in _searched_text(one)]
    if query.pinned is not None:
        sessions = [one for one in sessions if bool(one.pinned) is query.pinned]
    if query.archived is not None:
        sessions = [one for one in sessions if bool(one.archived) is query.archived]
    for key, text in query.metadata.items():
        sessions = [one for one in sessions if _has(one.metadata, key, text)]
    if query.only is not None:
        sessions = list(filter(query.only, sessions))
    return sessions


def _searched_text(metadata: SessionMetadata) -> str:
    summary = metadata.summary
    if not summary:  # the usual case, in a search for each typed letter
        return f"{metadata.title or ''}\n{metadata.preview or ''}".casefold()
    topics = summary.get("topics")
    texts = [metadata.title, metadata.preview, summary.get("summary")]
    if isinstance(topics, Sequence) and not isinstance(topics, str):
        texts += topics
    return "\n".join(text for text in texts if isinstance(text, str)).casefold()


def _has(values: Mapping[str, Any] | None, key: str, text: str) -> bool:
    if values is None or key not in values:
        return False
    value = values[key]
    return text == (value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _after(sessions: Sequence[SessionMetadata], place: _Place, query: ListQuery) -> int:
    """Return the number of sessions up to a sort key, even if its session no longer exists."""
    place_of = _PLACES[query.sort]
    if query.descends:
        return len(sessions) - bisect.bisect_left(sessions[::-1], place, key=place_of)
    return bisect.bisect_right(sessions, place, key=place_of)


def _cursor(last: SessionMetadata, query: ListQuery) -> str:
    written = [query.sort, query.descends, *_PLACES[query.sort](last)]
    return base64.urlsafe_b64encode(msgspec.json.encode(written)).rstrip(b"=").decode()


def _place_in(cursor: str, query: ListQuery) -> _Place:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        sort, descends, key, session_id = decode_as(text, tuple[str, bool, str, str])
    except (binascii.Error, ValueError) as error:
        raise _wrong_cursor() from error
    if (sort, descends) != (query.sort, query.descends):
        raise _wrong_cursor()
    return key, session_id


def _wrong_cursor() -> ValidationFailed:
    return ValidationFailed(
        "cursor must be the next_cursor of a page in the same order.", field="cursor"
    )
