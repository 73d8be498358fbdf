"""Declares the port of idempotency keys, which map ``Idempotency-Key`` to a turn.

Of several equal requests exactly one starts a turn; the others get that turn. A dead start is
recognized by its process, never by its age (docs/decisions/0037).
"""

import hashlib
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from chat.errors import KeyOfOtherVersion
from sessions_app.decoding import decode_as

VERSION = 2


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Maps a key to its turn.

    Attributes:
        version: The format version: 2, or 1 if written before keys were locked.
        fingerprint: A hash of the request; the same key with another request is refused.
        turn_id: The turn; None while it is being started.
        session_id: The turn's session; None while it is being started.
    """

    version: int = 1
    fingerprint: str
    turn_id: str | None = None
    session_id: str | None = None


def fingerprint_of(*parts: object) -> str:
    """Return a hash of the parts of a request."""
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


def key_digest(key: str) -> str:
    """Return the name of a key in a store."""
    return hashlib.sha256(key.encode()).hexdigest()[:40]


class _Version(msgspec.Struct):
    version: int = 1


Record = TypeVar("Record", bound=KeyRecord)


def decode_record(data: bytes, kind: type[Record]) -> Record:
    """Decode a record, after its version.

    Raises:
        KeyOfOtherVersion: The record was written by a newer server.
        MsgspecError: The record is invalid.
    """
    if decode_as(data, _Version).version > VERSION:
        raise KeyOfOtherVersion
    return decode_as(data, kind)


class HeldKey(Protocol):
    """Holds a key while this process starts its turn. All calls block.

    Call exactly one of ``release`` and ``drop`` at the end.
    """

    @property
    def record(self) -> KeyRecord:
        """Return the key's current record."""

    def keep(self, session_id: str, turn_id: str) -> None:
        """Store the turn of the key, which stays held."""

    def release(self) -> None:
        """Stop holding the key; from now on its turn's own state counts."""

    def drop(self) -> None:
        """Free the key, because no turn was started.

        Raises:
            StorageReadOnly: The key can't be removed; it is released all the same.
        """


class IdempotencyKeys(Protocol):
    """Stores the keys in use, shared by all web processes. All calls block."""

    def take(self, key: str, fingerprint: str) -> HeldKey | KeyRecord:
        """Take a free key for a new turn, or return the record of one that is in use.

        Raises:
            KeyReused: The key was used with another request.
            KeyOfOtherVersion: The record was written by a newer server.
            StorageFull: No space is left.
        """

    def find(self, key: str) -> KeyRecord | None:
        """Return the key's record, or None if it is free.

        Raises:
            KeyOfOtherVersion: The record was written by a newer server.
        """

    def is_held(self, key: str, record: KeyRecord) -> bool:
        """Return whether a living process is starting the turn of this key."""

    def drop(self, key: str, record: KeyRecord) -> None:
        """Free the key if it still has exactly this record and is not held.

        Raises:
            StorageReadOnly: The key can't be removed.
        """

    def sweep(self, older_than_seconds: float, known_turns: Callable[[], set[str]]) -> int:
        """Free keys older than that whose turn is not among the known ones; return how many.

        Held keys and those written by newer servers stay.
        """
