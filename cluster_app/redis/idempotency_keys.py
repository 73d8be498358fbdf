"""Stores idempotency keys in Redis, one value per key, set only if the key is free.

A key is held by a second, empty value, which is deleted when its turn has begun, and while the
process that starts it is alive according to ``Owners``. The TTL of that value frees a key whose
taking or release was lost on the way; one that was slower than it begins its turn all the same,
unless another request has taken the key (docs/decisions/0118). The TTL of a key covers the longest
turn and the retention of its journal.
"""

import logging
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from chat.errors import KeyReused
from chat.storage.idempotency_keys import VERSION, KeyRecord, decode_record, key_digest
from cluster_app.redis.connection import RedisConnection
from sessions_app.errors import StorageError, StorageUnavailable
from sessions_app.store.owners import Owners

logger = logging.getLogger(__name__)

HOLD_SECONDS = 60.0
"""The time after which a key is free whose holder lives and was not heard of."""

_TAKE = """
local found = redis.call('GET', KEYS[1])
if found then return found end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('SET', KEYS[2], '', 'PX', ARGV[3])
return ARGV[1]
"""
_KEEP = """
local found = redis.call('GET', KEYS[1])
local is_free = not found and redis.call('EXISTS', KEYS[2]) == 1
if not is_free and found ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1
"""
_END = """
redis.call('DEL', KEYS[2])
local found = redis.call('GET', KEYS[1])
if found and string.find(found, ARGV[1], 1, true) then redis.call('DEL', KEYS[1]) end
"""
_DROP = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class _Value(KeyRecord, frozen=True, kw_only=True, omit_defaults=True):
    """A record as stored in Redis.

    Attributes:
        holder: The owner id of the process that starts the turn.
        start: A random id for each time the key is taken.
    """

    holder: str | None = None
    start: str = ""

    def record(self) -> KeyRecord:
        """Return the record without the fields about its holder."""
        return KeyRecord(
            version=self.version,
            fingerprint=self.fingerprint,
            turn_id=self.turn_id,
            session_id=self.session_id,
        )


class RedisHeldKey:
    """Holds a key with a second value of this start. All calls block.

    Call exactly one of ``release`` and ``drop`` at the end.
    """

    def __init__(self, keys: "RedisIdempotencyKeys", name: str, value: _Value) -> None:
        self._keys = keys
        self._name = name
        self._value = value

    @property
    def record(self) -> KeyRecord:
        """Return the key's current record."""
        return self._value.record()

    def keep(self, session_id: str, turn_id: str) -> None:
        """Store the turn of the key, which stays held.

        Raises:
            StorageUnavailable: It can't be stored, or another process freed the key meanwhile. The
                turn must not begin.
        """
        known = msgspec.structs.replace(self._value, session_id=session_id, turn_id=turn_id)
        if not self._keys.replace(self._name, self._value, known):
            raise StorageUnavailable("Another process took the Idempotency-Key. Send it again.")
        self._value = known

    def release(self) -> None:
        """Stop holding the key; from now on its turn's own state counts.

        If Redis does not hear of it, the key is held until its TTL.
        """
        try:
            self._keys.release(self._name, self._value.start)
        except StorageError as error:
            logger.warning("an idempotency key was not released", extra={"reason": error.message})

    def drop(self) -> None:
        """Free the key, because no turn was started.

        Raises:
            StorageUnavailable: Redis cannot be reached; the key is held until its TTL.
        """
        self._keys.end(self._name, self._value.start)


class RedisIdempotencyKeys:
    """Stores idempotency keys in Redis; implements ``IdempotencyKeys``. All calls block.

    Args:
        connection: The Redis connection.
        owners: Tells which processes are alive.
        seconds: The TTL of a key: the longest turn plus the retention of its journal.
        hold_seconds: The TTL of what holds a key.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        owners: Owners,
        seconds: float,
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self._connection = connection
        self._owners = owners
        self._seconds = max(1, round(seconds))
        self._hold_milliseconds = round(hold_seconds * 1000)
        self._take = connection.script(_TAKE)
        self._keep = connection.script(_KEEP)
        self._end = connection.script(_END)
        self._drop = connection.script(_DROP)

    def take(self, key: str, fingerprint: str) -> RedisHeldKey | KeyRecord:
        """Take a free key for a new turn, or return the record of one that is in use.

        Raises:
            KeyReused: The key was used with another request.
            KeyOfOtherVersion: The record was written by a newer server.
            StorageUnavailable: Redis cannot be reached.
            StorageFull: Redis is out of memory.
        """
        name = self._name(key)
        while True:
            value = _Value(
                version=VERSION,
                fingerprint=fingerprint,
                holder=self._owners.mine(),
                start=secrets.token_hex(8),
            )
            mine = _encoded(value)
            args = [mine, self._seconds, self._hold_milliseconds]
            with self._connection.translated():
                found = bytes(self._take(keys=[name, _hold(name, value.start)], args=args))
            if found == mine:
                return RedisHeldKey(self, name, value)
            known = self._decoded(name, found)
            if known is not None:  # else it was unreadable and is free now
                if known.fingerprint != fingerprint:
                    raise KeyReused
                return known.record()

    def find(self, key: str) -> KeyRecord | None:
        """Return the key's record, or None if it is free.

        Raises:
            KeyOfOtherVersion: The record was written by a newer server.
            StorageUnavailable: Redis cannot be reached.
        """
        found = self._read(self._name(key))
        return found.record() if found is not None else None

    def is_held(self, key: str, record: KeyRecord) -> bool:  # noqa: ARG002 - the value has the holder
        """Return whether a living process is starting the turn of this key."""
        name = self._name(key)
        found = self._read(name)
        return found is not None and self._is_held(name, found)

    def drop(self, key: str, record: KeyRecord) -> None:
        """Free the key if it still has exactly this record and is not held.

        Raises:
            StorageUnavailable: Redis cannot be reached.
        """
        name = self._name(key)
        found = self._get(name)
        value = self._decoded(name, found)
        if value is not None and value.record() == record and not self._is_held(name, value):
            with self._connection.translated():
                self._drop(keys=[name], args=[found])

    def sweep(self, older_than_seconds: float, known_turns: Callable[[], set[str]]) -> int:  # noqa: ARG002
        """Do nothing: keys expire in Redis, some later than their turns."""
        return 0

    def replace(self, name: str, seen: _Value, new: _Value) -> bool:
        """Replace a value if it is unchanged, or lost while held; return whether it was."""
        args = [_encoded(seen), _encoded(new), self._seconds]
        with self._connection.translated():
            return bool(self._keep(keys=[name, _hold(name, seen.start)], args=args))

    def release(self, name: str, start: str) -> None:
        """Stop holding a key.

        Raises:
            StorageUnavailable: Redis cannot be reached.
        """
        with self._connection.translated():
            self._connection.client.delete(_hold(name, start))

    def end(self, name: str, start: str) -> None:
        """Stop holding a key, and free it if it is still that start's.

        Raises:
            StorageUnavailable: Redis cannot be reached.
        """
        with self._connection.translated():
            self._end(keys=[name, _hold(name, start)], args=[start])

    def _is_held(self, name: str, value: _Value) -> bool:
        if value.holder is None or not self._owners.lives(value.holder):
            return False
        with self._connection.translated():
            return bool(self._connection.client.exists(_hold(name, value.start)))

    def _read(self, name: str) -> _Value | None:
        return self._decoded(name, self._get(name))

    def _get(self, name: str) -> bytes | None:
        with self._connection.translated():
            found: Any = self._connection.client.get(name)
        return None if found is None else bytes(found)

    def _decoded(self, name: str, found: bytes | None) -> _Value | None:
        """Decode a value; free the key of one that is invalid."""
        if found is None:
            return None
        try:
            return decode_record(found, _Value)
        except msgspec.MsgspecError:
            with self._connection.translated():
                self._drop(keys=[name], args=[found])
            return None

    def _name(self, key: str) -> str:
        return self._connection.key("key", key_digest(key))


def _encoded(value: _Value) -> bytes:
    return msgspec.json.encode(value)


def _hold(name: str, start: str) -> str:
    """Return the Redis key of what holds a key."""
    return f"{name}:{start}"
