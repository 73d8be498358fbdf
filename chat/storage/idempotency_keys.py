"""Declares the port for idempotency keys: ``Idempotency-Key`` to turn.

Of several equal requests exactly one starts a turn, the others find out which. A start that died is
told from a slow one by its process, never by its age (docs/decisions/0037).
"""

import hashlib
from typing import Protocol

import msgspec

VERSION = 2


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Says which turn a key stands for.

    Attributes:
        version: Of the record: 2, or 1 for one of a server before keys were locked.
        fingerprint: A hash of the request; the same key with another request is refused.
        turn_id: The turn; None while it is being started.
        session_id: Its session; None likewise.
    """

    version: int = 1
    fingerprint: str
    turn_id: str | None = None
    session_id: str | None = None


def fingerprint_of(*parts: object) -> str:
    """Return a hash of the parts of a request."""
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


class HeldKey(Protocol):
    """Holds a key for which this process is about to start a turn. All calls block.

    It must be ended once, by ``release`` or ``drop``.
    """

    @property
    def record(self) -> KeyRecord:
        """Return the turn that the key stands for now."""

    def keep(self, session_id: str, turn_id: str) -> None:
        """Record the turn that the key stands for; it stays held."""

    def release(self) -> None:
        """Let go of the key: what it stands for shows by itself from now on."""

    def drop(self) -> None:
        """Free the key: nothing came of the request.

        Raises:
            StorageReadOnly: It can't be removed; it is released all the same.
        """


class IdempotencyKeys(Protocol):
    """Keeps the keys in use, for every web process. All calls block."""

    def take(self, key: str, fingerprint: str) -> HeldKey | KeyRecord:
        """Take the key for a turn, or return what it stands for already.

        Raises:
            KeyReused: The key stands for another request.
            KeyOfOtherVersion: Its record is one of a newer server.
            StorageFull: No space is left.
        """

    def find(self, key: str) -> KeyRecord | None:
        """Return what the key stands for; None when it is free.

        Raises:
            KeyOfOtherVersion: Its record is one of a newer server.
        """

    def is_held(self, key: str, record: KeyRecord) -> bool:
        """Return whether a living process starts the turn of this record."""

    def drop(self, key: str, record: KeyRecord) -> None:
        """Free the key if it still stands for just this and is not held.

        Raises:
            StorageReadOnly: It can't be removed.
        """

    def sweep(self, older_than_seconds: float, known_turns: set[str]) -> int:
        """Free keys of that age whose turn is not among the known ones; return how many.

        Keys that are held, and those of newer servers, stay.
        """
