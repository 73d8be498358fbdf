"""Declares the port that says which of the processes that own claims are alive."""

from collections.abc import Callable
from typing import Protocol


class Owners(Protocol):
    """Knows the processes that may own claims, this one included.

    All calls but ``holds`` block for moments.
    """

    def mine(self) -> str:
        """Return the id of this process; a new one after the last was given up for dead."""

    def lives(self, owner: str) -> bool:
        """Return whether the process with this id lives. Once it does not, it never does again."""

    def holds(self) -> bool:
        """Return at once whether others surely take this process for living: then it may act."""

    def when_condemned(self, call: Callable[[str], None]) -> None:
        """Have ``call`` called, in any thread, with an id of this process that others gave up."""

    def sweep(self) -> int:
        """Remove what dead processes left behind; return how many."""
