"""Finds the sessions that are stale in an index. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Listing


class IndexComparison(msgspec.Struct, frozen=True):
    """The sessions to be searched, compared with the index.

    Attributes:
        sessions: All sessions by their ids.
        pending: The sessions that are missing or stale in the index, in the order of results.
        gone: The ids of indexed sessions that do not exist any more.
        outdated: The ids of pending sessions of which the index has an earlier state.
    """

    sessions: Mapping[str, SessionMetadata]
    pending: Sequence[SessionMetadata]
    gone: Sequence[str] = ()
    outdated: Sequence[str] = ()


def compare(listing: Listing, indexed: Mapping[str, str]) -> IndexComparison:
    """Compare sessions with the stamps of those in an index, by their ids."""
    sessions = {metadata.session_id: metadata for metadata in listing.sessions}
    stale = {session_id for session_id, _ in listing.stamps.items() - indexed.items()}
    return IndexComparison(
        sessions,
        pending=[sessions[key] for key in sessions if key in stale] if stale else (),
        gone=tuple(indexed.keys() - sessions.keys()) if listing.complete else (),
        outdated=tuple(indexed.keys() & stale),
    )
