"""Declares the port of signals: requests from one process to a turn that another one runs."""

from collections.abc import Callable
from typing import Literal, Protocol, get_args

SignalKind = Literal["cancel", "detach", "confirm", "inbox"]
KINDS: frozenset[str] = frozenset(get_args(SignalKind))


class Signals(Protocol):
    """Sends signals to turns of other processes and receives those to turns of this one."""

    def send(self, turn_id: str, kind: SignalKind) -> None:
        """Send a signal to the turn's owner; sending it again has no effect. Blocks.

        Raises:
            StorageError: The signal can't be stored.
        """

    def withdraw(self, turn_id: str, kind: SignalKind) -> None:
        """Delete a signal that its owner has not taken. Blocks."""

    def is_waiting(self, turn_id: str, kind: SignalKind) -> bool:
        """Return whether the owner has not taken the signal yet. Blocks."""

    def take(self, turn_ids: set[str]) -> list[tuple[str, str]]:
        """Return and remove the signals to these turns: [(turn id, kind), ...]. Blocks."""

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed`` in another thread when there may be signals; return a stop function."""

    def sweep(self, older_than_seconds: float) -> None:
        """Delete signals whose turns died before taking them. Blocks."""
