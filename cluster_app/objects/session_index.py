"""Declares the port of the session index, which serves listings without reading each object.

The objects are authoritative: the index may be lost at any time and is then rebuilt from them.
"""

from collections.abc import Sequence
from typing import Protocol

from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Claim, Listing


class SessionIndex(Protocol):
    """Stores the metadata of all sessions of one store. All calls but the listing are quick.

    Each write is reported before and after. A process that dies in between leaves a mark, and the
    session is read again. Reporting a write never fails because the index can't be reached.
    """

    def writing(self, session_id: str) -> str:
        """Mark the session's object as about to be written or deleted.

        Returns:
            The mark of this write, to be passed to the call that reports the outcome. Without such
            a call (unknown outcome, or a dead process) the session is read again.
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
        """Store the metadata and the claim that were written."""

    def removed(self, session_id: str, mark: str) -> None:
        """Remove the entry of a deleted object."""

    def unwritten(self, session_id: str, mark: str) -> None:
        """Remove the mark of a write that certainly failed, such as on a conflict."""

    def claims(self) -> Sequence[Claim]:
        """Return the claims in the entries, and do maintenance; raises ``StorageError``."""

    def compare(self) -> None:
        """Reconcile the index with the objects, which may take long; raises ``StorageError``."""

    def listing(self) -> Listing:
        """Return the entries of all sessions; ``complete`` tells whether none are missing."""
