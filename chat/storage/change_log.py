"""Declares the port of the change log, by which processes learn of changes made by others."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, get_args

import msgspec

ChangeKind = Literal[
    "created", "changed", "deleted", "turn_started", "turn_waiting", "turn_ended", "mcp_login"
]

KINDS: frozenset[str] = frozenset(get_args(ChangeKind))

NO_SESSION = "0" * 10
"""The session of changes that concern none; their ``turn_id`` says what they concern."""

POSITION_PATTERN = "^([0-9a-f]{1,32}-[0-9]{1,20})?$"
"""Matches ids of changes, and the empty id that a browser may send."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A notice that a session changed, without its content.

    Attributes:
        id: The position in the log.
        kind: One of ``ChangeKind``, or a kind of a newer server.
        session_id: The session.
        turn_id: The turn concerned; empty if none.
    """

    id: str
    kind: str
    session_id: str
    turn_id: str = ""


class ChangeLog(Protocol):
    """Stores the newest changes, in one order for all processes, while there are listeners.

    All calls but ``follow`` block briefly.
    """

    def note(self, kind: ChangeKind, session_id: str, turn_id: str = "") -> None:
        """Append a change after it was made; almost free without listeners.

        Never raises, because the change itself has succeeded. A log that cannot be written to is
        discarded, so that its readers notice the gap.
        """

    def open(self) -> str:
        """Keep the log for the next ten minutes; return the id of the newest change.

        Raises:
            StorageError: The log can't be written to.
        """

    def follow(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed``, in any thread, when there may be changes; return a stop function."""

    def read(self, after: str, most: int) -> Sequence[Change] | None:
        """Return the next changes after the one with this id.

        Returns:
            Up to ``most`` changes; None if the log no longer has all changes since that id.

        Raises:
            StorageError: The log can't be read at the moment.
        """

    def sweep(self) -> None:
        """Delete the log if there have been no listeners for ten minutes."""
