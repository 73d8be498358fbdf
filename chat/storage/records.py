"""Declares the port for small records of sessions, in which approvals and responses are kept."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

TURN_NAMES = "[0-9a-f]{20}"
TURN_KINDS = ("request", "end", "deleted")
"""Records of turns that were asked for in another protocol, by their ids: what was asked for beyond
what a session holds, how it ended, that it was deleted."""


class Records(Protocol):
    """Keeps records by session, name and kind; a name has at most one of each kind. All block."""

    def sessions(self, unchanged_since: float) -> Sequence[str]:
        """Return the sessions that have records, and got none since then (seconds since 1970)."""

    def kinds(self, session_id: str) -> dict[str, set[str]]:
        """Return the session's names, each with the kinds of records that it has."""

    def read(self, session_id: str, name: str, kind: str) -> bytes | None:
        """Return a record, empty where it can't be read; None where there is none."""

    def put(
        self, session_id: str, name: str, kind: str, data: bytes, *, exclusive: bool = False
    ) -> bool:
        """Keep a record; it is durable when this returns, where records are made so.

        Args:
            session_id: The session.
            name: The subject of the record.
            kind: Its kind.
            data: Its content.
            exclusive: Replace none: of several writers exactly one succeeds.

        Returns:
            False if ``exclusive`` and there is one already.

        Raises:
            StorageError: It can't be kept.
        """

    def discard(self, session_id: str) -> None:
        """Forget everything about a session."""

    def sweep(self, unchanged_since: float, is_foreign: Callable[[bytes], bool]) -> int:
        """Forget names of which no record has changed since then (seconds since 1970).

        A name with a foreign record (of a newer server) stays. Returns how many were forgotten.
        """


class StampedRecords(Records, Protocol):
    """Keeps records, and says cheaply which sessions have new ones."""

    def stamps(self) -> Mapping[str, Hashable]:
        """Return the sessions that have records, each with a stamp that differs after each ``put``.

        Sessions whose records all ended by themselves may be among them.
        """
