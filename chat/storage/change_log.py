"""Declares the port to the log of changes, which tells every process what others changed."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, get_args

import msgspec

ChangeKind = Literal["created", "changed", "deleted", "turn_started", "turn_waiting", "turn_ended"]

KINDS: frozenset[str] = frozenset(get_args(ChangeKind))

POSITION_PATTERN = "^([0-9a-f]{1,32}-[0-9]{1,20})?$"
"""The ids of changes, and the empty one that a browser may send."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a session: it says what to look at, and not what is there now.

    Attributes:
        id: Its place in the log.
        kind: One of ``ChangeKind``, or of a newer server.
        session_id: The session.
        turn_id: The turn, if it is about one.
    """

    id: str
    kind: str
    session_id: str
    turn_id: str = ""


class ChangeLog(Protocol):
    """Keeps the newest changes, in one order for all processes, while somebody listens.

    All calls but ``follow`` block for moments.
    """

    def note(self, kind: ChangeKind, session_id: str, turn_id: str = "") -> None:
        """Add a change, after it was made; next to nothing where nobody listens.

        Raises nothing: what was changed was changed. A log that takes no more is given up, so that
        whoever reads it hears of that.
        """

    def open(self) -> str:
        """Say that somebody listens, for ten minutes from now; return the id of the newest change.

        Raises:
            StorageError: The log can't be kept.
        """

    def follow(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed``, in any thread, when there may be more; return how to stop that."""

    def read(self, after: str, most: int) -> Sequence[Change] | None:
        """Return the next changes after the one with this id.

        Returns:
            The changes, ``most`` at most; None where what came after it is not known any more.

        Raises:
            StorageError: The log is out of reach just now.
        """

    def sweep(self) -> None:
        """Forget all changes if nothing has listened for long."""
