"""Stores idempotency keys in Redis, one value per key, set only if the key is free.

A key is held while the process that starts its turn is alive according to ``Owners``: a dead start
is recognized by its process, never by its age (docs/decisions/0037). The TTL of a value covers the
longest turn and the retention of its journal.
"""

import logging
import secrets
import threading
import time
from contextlib import suppress
from typing import Any

import msgspec
from redis.exceptions import RedisError

from chat.errors import KeyReused
from chat.storage.idempotency_keys import VERSION, KeyRecord, decode_record, key_digest
from cluster_app.redis.connection import RedisConnection
from sessions_app.errors import StorageError, StorageUnavailable
from sessions_app.store.owners import Owners

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 0.5
"""The interval between attempts to release keys that could not be released."""

_GIVEN_UP_SECONDS = 600
"""The time for which an abandoned start is blocked: Redis may still run its delayed commands."""

_TAKE = """
if redis.call('EXISTS', KEYS[2]) == 1 then return '' end
local found = redis.call('GET', KEYS[1])
if found then return found end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return ARGV[1]
"""
_KEEP = """
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local found = redis.call('GET', KEYS[1])
if found and found ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1
"""
_GIVE_UP = """
redis.call('SET', KEYS[2], '', 'EX', ARGV[2])
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""
_DROP = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class _Value(KeyRecord, frozen=True, kw_only=True, omit_defaults=True):
    """A record as stored in Redis.

    Attributes:
        holder: The owner id of the process that starts the turn; None once it was started.
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
    """Holds a key by storing this process's owner id in its value. All calls block.

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
            StorageUnavailable: It can't be stored, or other processes considered this one dead and
                freed the key. The turn must not begin.
        """
        known = msgspec.structs.replace(self._value, session_id=session_id, turn_id=turn_id)
        try:
            is_ours = self._keys.replace(self._name, self._value, known)
        except StorageError:  # Redis may have stored it all the same
            self._keys.settle_later(self._name, known, None)
            raise
        if not is_ours:
            raise StorageUnavailable("Another process took the Idempotency-Key. Send it again.")
        self._value = known

    def release(self) -> None:
        """Stop holding the key; from now on its turn's own state counts.

        While Redis is unreachable, the key stays held until Redis is back or this process ends.
        """
        known = msgspec.structs.replace(self._value, holder=None)
        self._keys.settle(self._name, self._value, known)

    def drop(self) -> None:
        """Free the key, because no turn was started; deferred like ``release`` if need be."""
        self._keys.settle(self._name, self._value, None)


class RedisIdempotencyKeys:
    """Stores idempotency keys in Redis; implements ``IdempotencyKeys``. All calls block.

    Args:
        connection: The Redis connection.
        owners: Tells which processes are alive.
        seconds: The TTL of a key: the longest turn plus the retention of its journal.
    """

    def __init__(self, connection: RedisConnection, *, owners: Owners, seconds: float) -> None:
        self._connection = connection
        self._owners = owners
        self._seconds = max(1, round(seconds))
        self._take = connection.script(_TAKE)
        self._keep = connection.script(_KEEP)
        self._give_up = connection.script(_GIVE_UP)
        self._drop = connection.script(_DROP)
        self._pending: list[tuple[str, _Value, _Value | None]] = []
        self._is_settling = False
        self._lock = threading.Lock()

    def take(self, key: str, fingerprint: str) -> RedisHeldKey | KeyRecord:
        """Take a free key for a new turn, or return the record of one that is in use.

        Raises:
            KeyReused: The key was used with another request.
            KeyOfOtherVersion: The record was written by a newer server.
            StorageUnavailable: Redis cannot be reached.
            StorageFull: Redis is out of memory.
        """
        self._retry_pending()
        name = self._name(key)
        while True:
            value = _Value(
                version=VERSION,
                fingerprint=fingerprint,
                holder=self._owners.mine(),
                start=secrets.token_hex(8),
            )
            mine = _encoded(value)
            try:
                with self._connection.translated():
                    found = bytes(
                        self._take(keys=self._redis_keys(name, value), args=[mine, self._seconds])
                    )
            except StorageError:  # Redis may have stored it all the same
                self.settle_later(name, value, None)
                raise
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
        self._retry_pending()
        found = self._read(self._name(key))
        return found.record() if found is not None else None

    def is_held(self, key: str, record: KeyRecord) -> bool:  # noqa: ARG002 - the value has the holder
        """Return whether a living process is starting the turn of this key."""
        found = self._read(self._name(key))
        return found is not None and self._is_held(found)

    def drop(self, key: str, record: KeyRecord) -> None:
        """Free the key if it still has exactly this record and is not held.

        Raises:
            StorageUnavailable: Redis cannot be reached.
        """
        name = self._name(key)
        found = self._get(name)
        value = self._decoded(name, found)
        if value is not None and value.record() == record and not self._is_held(value):
            with self._connection.translated():
                self._drop(keys=[name], args=[found])

    def sweep(self, older_than_seconds: float, known_turns: set[str]) -> int:  # noqa: ARG002
        """Do nothing: keys expire in Redis, some later than their turns."""
        return 0

    def replace(self, name: str, seen: _Value, new: _Value) -> bool:
        """Replace a value if it is unchanged or expired; return whether it was replaced."""
        args = [_encoded(seen), _encoded(new), self._seconds]
        with self._connection.translated():
            return bool(self._keep(keys=self._redis_keys(name, seen), args=args))

    def settle(self, name: str, seen: _Value, new: _Value | None) -> None:
        """Replace a value, or free its key if ``new`` is None; now or once Redis is back."""
        try:
            self._settle(name, seen, new)
        except StorageError as error:
            logger.warning(
                "an idempotency key cannot be released yet, retrying",
                extra={"reason": error.message},
            )
            self.settle_later(name, seen, new)

    def settle_later(self, name: str, seen: _Value, new: _Value | None) -> None:
        """Replace a value or free its key in the background, once Redis is back.

        Until then other processes wait for this start, since its holder is alive.
        """
        with self._lock:
            self._pending.append((name, seen, new))
        self._start_settling()

    def _start_settling(self) -> None:
        with self._lock:
            if self._is_settling:
                return
            settler = threading.Thread(
                target=self._settle_until_done, name="key-settler", daemon=True
            )
            settler.start()  # before the flag is set: it may fail for lack of threads
            self._is_settling = True

    def _settle_until_done(self) -> None:
        try:
            while True:
                time.sleep(SETTLE_SECONDS)
                with suppress(StorageError):  # retried in the next round
                    self._settle_pending()
                with self._lock:
                    if not self._pending:
                        self._is_settling = False
                        return
        except Exception:
            logger.exception("idempotency keys not released; the next request with a key retries")
            with self._lock:
                self._is_settling = False

    def _settle(self, name: str, seen: _Value, new: _Value | None) -> None:
        if new is not None:
            self.replace(name, seen, new)
            return
        args = [_encoded(seen), _GIVEN_UP_SECONDS]
        with self._connection.translated():
            self._give_up(keys=self._redis_keys(name, seen), args=args)

    def _retry_pending(self) -> None:
        """Release pending keys; only log commands that Redis rejects, they concern other keys.

        Raises:
            StorageUnavailable: Redis is still unreachable.
        """
        try:
            self._settle_pending()
        except RedisError:
            logger.exception("an idempotency key could not be released")
            self._start_settling()

    def _settle_pending(self) -> None:
        """Release the keys that could not be released while Redis was unreachable.

        Raises:
            StorageUnavailable: Redis is still unreachable.
            RedisError: Redis rejected one, which is retried after all others.
        """
        while self._pending:
            with suppress(IndexError):  # another thread took the last one
                rest = self._pending.pop()
                try:
                    self._settle(*rest)
                except StorageError:
                    self.settle_later(*rest)
                    raise
                except BaseException:
                    self._pending.insert(0, rest)
                    raise

    def _is_held(self, value: _Value) -> bool:
        return value.holder is not None and self._owners.lives(value.holder)

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

    def _redis_keys(self, name: str, value: _Value) -> list[str]:
        """Return the Redis keys of the value and of the marker of its abandoned start."""
        return [name, f"{name}:{value.start}"]

    def _name(self, key: str) -> str:
        return self._connection.key("key", key_digest(key))


def _encoded(value: _Value) -> bytes:
    return msgspec.json.encode(value)
