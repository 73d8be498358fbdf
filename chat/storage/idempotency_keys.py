"""Stores idempotency keys, which map ``Idempotency-Key`` to a turn or a message, as records.

Of several equal requests exactly one starts a turn; the others get that turn. A key is held while
the process lives that starts its turn, for a minute at most, and for another one once its turn is
known. A start that takes longer begins its turn all the same, unless another request has taken the
key (docs/decisions/0131).
"""

import hashlib
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from chat.errors import KeyOfOtherVersion, KeyReused
from sessions_app.decoding import decode_as
from sessions_app.errors import StorageError, StorageUnavailable
from sessions_app.store.atomic import UnreadableFileError
from sessions_app.store.owners import Owners
from sessions_app.store.records import SharedRecords, unchanged_since

logger = logging.getLogger(__name__)

VERSION = 2
KEY_RECORDS = r"[0-9a-f]{40}\.json"
"""A regular expression for the names of records."""
KEY_LIMIT = 4096
HOLD_SECONDS = 60.0
"""The time for which a key is held whose holder lives and does not release it."""


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Maps a key to its turn, or to its message that was queued.

    Attributes:
        version: The format version: 2, or 1 if written before keys were held.
        fingerprint: A hash of the request; the same key with another request is refused.
        turn_id: The turn; None while it is being started.
        session_id: The turn's session; None while it is being started.
        message_id: The message that was queued instead of starting a turn.
        holder: The owner id of the process that starts the turn; None once it has begun.
        held_until: When the key is not held any more (Unix time), whether its holder lives or not.
        start: A random id for each time the key is taken.
    """

    version: int = 1
    fingerprint: str
    turn_id: str | None = None
    session_id: str | None = None
    message_id: str | None = None
    holder: str | None = None
    held_until: float = 0.0
    start: str = ""


def fingerprint_of(*parts: object) -> str:
    """Return a hash of the parts of a request."""
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


class _Version(msgspec.Struct):
    version: int = 1


class HeldKey:
    """Holds a key while this process starts its turn. All calls block.

    Call exactly one of ``release`` and ``drop`` at the end.

    Attributes:
        record: The key's current record.
    """

    def __init__(self, keys: "IdempotencyKeys", name: str, record: KeyRecord) -> None:
        self._keys = keys
        self._name = name
        self.record = record

    def keep(
        self, session_id: str, turn_id: str | None = None, *, message_id: str | None = None
    ) -> None:
        """Store the turn or the message of the key, which stays held.

        Raises:
            StorageUnavailable: It can't be stored, or another request took the key meanwhile. The
                turn must not begin.
            StorageFull: No space is left.
        """
        known = msgspec.structs.replace(
            self.record,
            session_id=session_id,
            turn_id=turn_id,
            message_id=message_id,
            held_until=self._keys.hold_end(),  # while the turn is saved
        )
        if not self._keys.replace(self._name, self.record, known):
            raise StorageUnavailable("Another process took the Idempotency-Key. Send it again.")
        self.record = known

    def release(self) -> None:
        """Stop holding the key; from now on its turn's own state counts.

        If that can't be stored, other processes take it as held for up to a minute.
        """
        released = msgspec.structs.replace(self.record, holder=None)
        try:
            if self._keys.replace(self._name, self.record, released):
                self.record = released
        except (OSError, StorageError) as error:
            logger.warning("an idempotency key was not released", extra={"reason": str(error)})
            self._keys.end(self.record.start)

    def drop(self) -> None:
        """Free the key, because no turn was started.

        Raises:
            StorageError: It can't be removed; other processes take it as held for up to a minute.
        """
        try:
            self._keys.remove(self._name, self.record.start)
        except (OSError, StorageError):
            self._keys.end(self.record.start)
            raise


class IdempotencyKeys:
    """Stores the keys in use, shared by all web processes. All calls block.

    Args:
        records: The records, with names like ``KEY_RECORDS``.
        owners: Tells which processes are alive.
        clock: Returns the Unix time, the same for all processes.
    """

    def __init__(
        self,
        records: SharedRecords,
        *,
        owners: Owners,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._records = records
        self._owners = owners
        self._clock = clock
        self._ended: set[str] = set()

    def take(self, key: str, fingerprint: str) -> HeldKey | KeyRecord:
        """Take a free key for a new turn, or return the record of one that is in use.

        Raises:
            KeyReused: The key was used with another request.
            KeyOfOtherVersion: The record was written by a newer server.
            StorageFull: No space is left.
            StorageUnavailable: The storage can't be reached.
        """
        name = _name(key)
        while True:
            mine = KeyRecord(
                version=VERSION,
                fingerprint=fingerprint,
                holder=self._owners.mine(),
                held_until=self.hold_end(),
                start=secrets.token_hex(8),
            )
            if self._records.put(name, msgspec.json.encode(mine), exists=False):
                return HeldKey(self, name, mine)
            _, found = self._read(name)
            if found is not None:  # else it is free now
                if found.fingerprint != fingerprint:
                    raise KeyReused
                return found

    def find(self, key: str) -> KeyRecord | None:
        """Return the key's record, or None if it is free.

        Raises:
            KeyOfOtherVersion: The record was written by a newer server.
            StorageUnavailable: The storage can't be reached.
        """
        return self._read(_name(key))[1]

    def is_held(self, record: KeyRecord) -> bool:
        """Return whether a living process is starting the turn of this record's key."""
        if record.holder is None or record.start in self._ended:
            return False
        return record.held_until > self._clock() and self._owners.lives(record.holder)

    def drop(self, key: str, record: KeyRecord) -> None:
        """Free the key if it still has exactly this record and is not held.

        Raises:
            StorageError: The key can't be removed.
        """
        data, found = self._read(_name(key))
        if found is not None and found == record and not self.is_held(found):
            self._records.swap(_name(key), data, None)

    def sweep(self, older_than_seconds: float, known_turns: Callable[[], set[str]]) -> int:
        """Free keys older than that whose turn is not among the known ones; return how many.

        Held keys, those written by newer servers and those that expire by themselves stay.
        """
        old = unchanged_since(self._records, self._clock() - older_than_seconds, lambda name: name)
        known, swept = known_turns() if old else set(), 0
        for name in old:
            with suppress(KeyOfOtherVersion, UnreadableFileError):
                data, found = self._read(name)
                if found is not None and found.turn_id not in known and not self.is_held(found):
                    swept += self._records.swap(name, data, None)
        return swept

    def hold_end(self) -> float:
        """Return until when a key is held that is taken or kept now (Unix time)."""
        return self._clock() + HOLD_SECONDS

    def replace(self, name: str, current: KeyRecord, new: KeyRecord) -> bool:
        """Replace a record if it is unchanged; return whether it was."""
        return self._records.swap(name, msgspec.json.encode(current), msgspec.json.encode(new))

    def remove(self, name: str, start: str) -> None:
        """Free the key if it is still that start's, whether its turn was stored or not."""
        while True:
            data, found = self._read(name)
            if found is None or found.start != start or self._records.swap(name, data, None):
                return

    def end(self, start: str) -> None:
        """Take a start of this process as ended, as its record can't say so."""
        self._ended.add(start)

    def _read(self, name: str) -> tuple[bytes, KeyRecord | None]:
        """Return a record, also as it is stored; free the key of one that is invalid."""
        try:
            data = self._records.read(name)
        except UnreadableFileError:
            self._records.delete(name)
            return b"", None
        if data is None:
            return b"", None
        try:
            if decode_as(data, _Version).version > VERSION:
                raise KeyOfOtherVersion
            return data, decode_as(data, KeyRecord)
        except msgspec.MsgspecError:  # incomplete after a crash of the machine
            self._records.swap(name, data, None)
            return b"", None


def _name(key: str) -> str:
    return f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.json"
