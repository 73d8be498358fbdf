"""Declares the port to a generation: a number that all processes share and each can raise."""

from typing import Protocol


class Generations(Protocol):
    """Counts the reloads of tools that were asked for, in any process. Calls block."""

    def current(self) -> int:
        """Return the generation; 0 before the first ``bump``."""
        ...

    def bump(self) -> None:
        """Raise the generation, for all processes; no concurrent call is lost.

        Raises:
            StorageFull: There is no space; the generation is unchanged.
        """
        ...
