"""Declares the port to the index of sessions: listings, without reading each object.

The objects are right, always: the index is a hint that may be lost at any time, and is then made
again from them.
"""

from typing import Protocol

from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Claim, Listing


class SessionIndex(Protocol):
    """Knows the metadata of all sessions of one store. All calls but the listing take a moment.

    Of a write it learns twice: a process that dies in between leaves a mark by which the session is
    read again. No call about a write fails because the index is out of reach.
    """

    def writing(self, session_id: str) -> str:
        """Note that the session's object is about to be written or deleted.

        Returns:
            A mark of this write alone, for the call that says how it went. Without such a call (the
            outcome is not known, or the process died) the session is read again.
        """

    def wrote(
        self,
        session_id: str,
        mark: str,
        *,
        etag: str,
        metadata: SessionMetadata,
        claim: Claim | None = None,
    ) -> None:
        """Note what was written, and the claim that is part of it."""

    def removed(self, session_id: str, mark: str) -> None:
        """Note that the object is gone."""

    def unwritten(self, session_id: str, mark: str) -> None:
        """Note that nothing was written, for certain: another process was faster, say."""

    def keep_up(self) -> None:
        """Do what is due when nobody asks for lists; ``StorageError``."""

    def compare(self) -> None:
        """Find what others put in or took out, for however long that takes; ``StorageError``."""

    def listing(self) -> Listing:
        """Return what is known of all sessions; ``complete`` says whether that is all there is."""
