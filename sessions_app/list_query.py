"""Finds sessions in a listing, page by page. Pure."""

from collections.abc import Sequence

import msgspec

from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Listing, Unreadable


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the sessions, most recently updated first.

    Attributes:
        sessions: The metadata of the sessions on this page.
        total: How many sessions match, on all pages.
        unreadable: Every session file that can't be read, and why.
        complete: Whether these are all; as in ``Listing``.
    """

    sessions: Sequence[SessionMetadata]
    total: int
    unreadable: Sequence[Unreadable] = ()
    complete: bool = True


def page_of(listing: Listing, *, limit: int | None, offset: int, q: str) -> SessionPage:
    """Return some of the sessions that hold the text ``q``, in upper or lower case."""
    wanted = q.strip().casefold()
    sessions = listing.sessions
    if wanted:
        sessions = [metadata for metadata in sessions if wanted in _searched_text(metadata)]
    end = None if limit is None else offset + limit
    return SessionPage(
        sessions=sessions[offset:end],
        total=len(sessions),
        unreadable=listing.unreadable,
        complete=listing.complete,
    )


def _searched_text(metadata: SessionMetadata) -> str:
    summary = metadata.summary or {}
    topics = summary.get("topics")
    texts = [metadata.preview, summary.get("summary")]
    if isinstance(topics, Sequence) and not isinstance(topics, str):
        texts += topics
    return "\n".join(text for text in texts if isinstance(text, str)).casefold()
