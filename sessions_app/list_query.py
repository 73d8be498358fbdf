"""Sorts and filters a list of sessions, page by page. Pure.

A page ends in a cursor: the place behind its last session in the order that was asked for. Sessions
that are made, changed or deleted meanwhile shift nothing (keyset pagination).
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
State = Literal["running", "awaiting_approval", "due", "idle"]
"""The states of a session, whose turn runs, or waits for a person, or whose summary is due."""
_Place = tuple[str, str]

_PLACES: Mapping[Sort, Callable[[SessionMetadata], _Place]] = {
    "updated": lambda metadata: (metadata.updated_at, metadata.session_id),
    "created": lambda metadata: (metadata.created_at, metadata.session_id),
    "title": lambda metadata: (
        (metadata.title or metadata.preview or "").casefold(),
        metadata.session_id,
    ),
}
"""The place of a session in each order; the id decides between equals."""


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that are wanted, and their order.

    Attributes:
        q: Only those with this text in title, preview, summary or topics, in upper or lower case.
        pinned: Only those that are pinned, or are not; None for both.
        archived: Only those that are archived, or are not; None for both.
        metadata: Only those whose own metadata have these values, as text.
        only: Only those for which this is true; None for all.
        sort: What they are ordered by; without a title, sessions stand by their preview.
        order: Which come first; None: newest, and titles from A to Z.
        limit: How many at most; None for all.
        offset: How many to leave out at the beginning.
        cursor: ``next_cursor`` of the page before.
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
        """Return whether later times, or letters, come first."""
        return (self.order or ("asc" if self.sort == "title" else "desc")) == "desc"


class Wanted(TypedDict, total=False):
    """The further fields of a ``ListQuery``."""

    pinned: bool | None
    archived: bool | None
    metadata: Mapping[str, str]
    only: Callable[[SessionMetadata], bool] | None
    sort: Sort
    order: Order | None
    cursor: str | None


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the sessions.

    Attributes:
        sessions: The metadata of the sessions on this page.
        total: How many sessions match, on all pages.
        unreadable: Every session file that can't be read, and why.
        complete: Whether these are all; as in ``Listing``.
        next_cursor: Where the next page begins; None on the last one.
    """

    sessions: Sequence[SessionMetadata]
    total: int
    unreadable: Sequence[Unreadable] = ()
    complete: bool = True
    next_cursor: str | None = None


class Orders:
    """Keeps the orders of the sessions that were listed last: they seldom change between pages.

    Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._last: tuple[Sequence[SessionMetadata], dict[Sort, Sequence[SessionMetadata]]] = (), {}

    def ordered(self, listing: Listing, query: ListQuery) -> Sequence[SessionMetadata]:
        """Return all sessions of a listing in the order that is wanted."""
        if query.sort == "updated":  # as listings are, the newest first
            return listing.sessions if query.descends else listing.sessions[::-1]
        sessions, orders = self._last
        if sessions is not listing.sessions:
            sessions, orders = self._last = listing.sessions, {}
        ascending = orders.get(query.sort)
        if ascending is None:
            ascending = orders[query.sort] = sorted(sessions, key=_PLACES[query.sort])
        return ascending[::-1] if query.descends else ascending


def page_of(listing: Listing, query: ListQuery, orders: Orders) -> SessionPage:
    """Return a page of the sessions that match.

    Args:
        listing: All sessions.
        query: Which of them are wanted.
        orders: The orders of the last listing, this one's from now on.

    Raises:
        ValidationFailed: The cursor is none of this order.
    """
    found = _matching(orders.ordered(listing, query), query)
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
    if not summary:  # most of them, each time that somebody types a letter
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


def _after(found: Sequence[SessionMetadata], place: _Place, query: ListQuery) -> int:
    """Return how many sessions come up to a place, whether or not there still is one."""
    place_of = _PLACES[query.sort]
    if query.descends:
        return len(found) - bisect.bisect_left(found[::-1], place, key=place_of)
    return bisect.bisect_right(found, place, key=place_of)


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
