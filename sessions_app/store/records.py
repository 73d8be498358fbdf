"""Declares the port of small per-session records, which store approvals and responses."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

TURN_NAMES = "[0-9a-f]{20}"
REMOVED = "removed"
"""The kind of the mark of a turn whose journal was discarded as messages of it were deleted."""
TURN_KINDS = ("request", "end", "deleted", REMOVED)
"""The kinds of records of a turn. The first three are of one requested in another protocol: request
fields that a session does not store, the outcome, and a deletion marker."""


class Records(Protocol):
    """Stores records by session, name and kind. All calls block."""

    def sessions(self, unchanged_since: float) -> Sequence[str]:
        """Return the sessions with records whose last put was not after that time (Unix time)."""

    def kinds(self, session_id: str) -> dict[str, set[str]]:
        """Return the session's record names, each with its kinds."""

    def read(self, session_id: str, name: str, kind: str) -> bytes | None:
        """Return a record: empty if it can't be read, None if it does not exist."""

    def put(
        self, session_id: str, name: str, kind: str, data: bytes, *, exclusive: bool = False
    ) -> bool:
        """Store a record; it is durable when this returns, if the store is configured so.

        Args:
            session_id: The session.
            name: The subject of the record.
            kind: Its kind.
            data: Its content.
            exclusive: Do not replace an existing record: of several writers exactly one succeeds.

        Returns:
            False if ``exclusive`` and the record exists already.

        Raises:
            StorageError: The record can't be stored.
        """

    def discard(self, session_id: str) -> None:
        """Delete all records of a session."""

    def sweep(self, unchanged_since: float, is_foreign: Callable[[bytes], bool]) -> int:
        """Delete the records of names without a change since that time (Unix time).

        Names with a foreign record (of a newer server) stay. Returns how many names were deleted.
        """


class StampedRecords(Records, Protocol):
    """Stores records, and tells cheaply which sessions have new ones."""

    def stamps(self) -> Mapping[str, Hashable]:
        """Return a stamp for each session with records; it differs after each ``put``.

        Sessions whose records have all expired may be included.
        """
