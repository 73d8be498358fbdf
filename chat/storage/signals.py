"""Declares the port for signals: requests of one process to a turn that another one runs."""

from collections.abc import Callable
from typing import Literal, Protocol, get_args

SignalKind = Literal["cancel", "detach", "confirm"]
KINDS: frozenset[str] = frozenset(get_args(SignalKind))


class Signals(Protocol):
    """Sends signals to turns of other processes and receives those to one's own."""

    def send(self, turn_id: str, kind: SignalKind) -> None:
        """Leave a signal for the turn's owner; sending it twice is sending it once. Blocks.

        Raises:
            StorageError: It can't be kept.
        """

    def withdraw(self, turn_id: str, kind: SignalKind) -> None:
        """Take back a signal that its owner has not taken. Blocks."""

    def is_waiting(self, turn_id: str, kind: SignalKind) -> bool:
        """Return whether the owner has not taken the signal yet. Blocks."""

    def take(self, turn_ids: set[str]) -> list[tuple[str, str]]:
        """Return and remove the signals to these turns: [(turn id, kind), ...]. Blocks."""

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed``, in another thread, when there may be signals; return how to stop."""

    def sweep(self, older_than_seconds: float) -> None:
        """Remove signals to turns that died before they took them. Blocks."""
