"""Declares the port that tells which claim owners, which are processes, are alive."""

from collections.abc import Callable
from typing import Protocol


class Owners(Protocol):
    """Tells which processes are alive, including this one.

    All calls but ``holds`` block briefly.
    """

    def mine(self) -> str:
        """Return the owner id of this process; a new one after the last was declared dead."""

    def lives(self, owner: str) -> bool:
        """Return whether the process with this id is alive. Once dead, an id stays dead."""

    def holds(self) -> bool:
        """Return whether other processes certainly consider this one alive, so that it may act."""

    def when_condemned(self, call: Callable[[str], None]) -> Callable[[], None]:
        """Register a callback, run in any thread, for ids of this process declared dead.

        Returns a function that removes it.
        """
