"""Keeps idempotency keys in Redis, each as one value that is taken exclusively.

A key is held as long as the process lives that starts its turn, which ``Owners`` knows; so a start
that died is told from a slow one by its process, as with files (docs/decisions/0037). A value ends
by itself once the longest turn and its journal are gone.
"""

import hashlib
import logging
import secrets
import threading
import time
from contextlib import suppress
from typing import Any

import msgspec
from redis.exceptions import RedisError

from chat.errors import KeyOfOtherVersion, KeyReused
from chat.storage.idempotency_keys import VERSION, KeyRecord
from sessions_app.decoding import decode_as
from sessions_app.errors import StorageError, StorageUnavailable
from sessions_app.store.owners import Owners
from sessions_app.store.redis.connection import RedisConnection

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 0.5
"""The time after which a process tries again to let go of what it could not."""

_GIVEN_UP_SECONDS = 600
"""The time for which a given-up start is refused: Redis may carry out late what it asked for."""

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


class _Version(msgspec.Struct):
    version: int = 1


class _Value(KeyRecord, frozen=True, kw_only=True, omit_defaults=True):
    """A record as it is kept.

    Attributes:
        holder: The process that starts the turn; None once it is there.
        start: Random, for each time that the key is taken.
    """

    holder: str | None = None
    start: str = ""

    def record(self) -> KeyRecord:
        """Return the record as other processes see it."""
        return KeyRecord(
            version=self.version,
            fingerprint=self.fingerprint,
            turn_id=self.turn_id,
            session_id=self.session_id,
        )


class RedisHeldKey:
    """Holds a key by the name of this process in its value. All calls block.

    It must be ended once, by ``release`` or ``drop``.
    """

    def __init__(self, keys: "RedisIdempotencyKeys", name: str, value: _Value) -> None:
        self._keys = keys
        self._name = name
        self._value = value

    @property
    def record(self) -> KeyRecord:
        """Return the turn that the key stands for now."""
        return self._value.record()

    def keep(self, session_id: str, turn_id: str) -> None:
        """Record the turn that the key stands for; it stays held.

        Raises:
            StorageUnavailable: It can't be kept, or others took this process for dead and the key
                for free. The turn must not begin.
        """
        known = msgspec.structs.replace(self._value, session_id=session_id, turn_id=turn_id)
        try:
            is_ours = self._keys.replace(self._name, self._value, known)
        except StorageError:  # it may have been recorded all the same
            self._keys.settle_later(self._name, known, None)
            raise
        if not is_ours:
            raise StorageUnavailable("Another process took the Idempotency-Key. Send it again.")
        self._value = known

    def release(self) -> None:
        """Let go of the key: what it stands for shows by itself from now on.

        While Redis is away it is held on, until Redis is back or this process ends.
        """
        known = msgspec.structs.replace(self._value, holder=None)
        self._keys.settle(self._name, self._value, known)

    def drop(self) -> None:
        """Free the key: nothing came of the request; while Redis is away as ``release``."""
        self._keys.settle(self._name, self._value, None)


class RedisIdempotencyKeys:
    """Keeps the keys of one storage; implements ``IdempotencyKeys``. All calls block.

    Args:
        connection: Where they are.
        owners: The processes that may hold keys.
        seconds: How long a key is kept: as long as a turn may run and its journal is kept.
    """

    def __init__(self, connection: RedisConnection, *, owners: Owners, seconds: float) -> None:
        self._connection = connection
        self._owners = owners
        self._seconds = max(1, round(seconds))
        self._take = connection.script(_TAKE)
        self._keep = connection.script(_KEEP)
        self._give_up = connection.script(_GIVE_UP)
        self._drop = connection.script(_DROP)
        self._unsettled: list[tuple[str, _Value, _Value | None]] = []
        self._is_settling = False
        self._lock = threading.Lock()

    def take(self, key: str, fingerprint: str) -> RedisHeldKey | KeyRecord:
        """Take the key for a turn, or return what it stands for already.

        Raises:
            KeyReused: The key stands for another request.
            KeyOfOtherVersion: Its record is one of a newer server.
            StorageUnavailable: Redis is away.
            StorageFull: It has no memory left.
        """
        self._catch_up()
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
                        self._take(keys=self._places(name, value), args=[mine, self._seconds])
                    )
            except StorageError:  # it may have been taken all the same
                self.settle_later(name, value, None)
                raise
            if found == mine:
                return RedisHeldKey(self, name, value)
            known = self._decoded(name, found)
            if known is not None:  # else it is free by now
                if known.fingerprint != fingerprint:
                    raise KeyReused
                return known.record()

    def find(self, key: str) -> KeyRecord | None:
        """Return what the key stands for; None when it is free.

        Raises:
            KeyOfOtherVersion: Its record is one of a newer server.
            StorageUnavailable: Redis is away.
        """
        self._catch_up()
        found = self._read(self._name(key))
        return found.record() if found is not None else None

    def is_held(self, key: str, record: KeyRecord) -> bool:  # noqa: ARG002 - the value tells
        """Return whether a living process starts the turn of this record."""
        found = self._read(self._name(key))
        return found is not None and self._is_held(found)

    def drop(self, key: str, record: KeyRecord) -> None:
        """Free the key if it still stands for just this and is not held.

        Raises:
            StorageUnavailable: Redis is away.
        """
        name = self._name(key)
        found = self._get(name)
        value = self._decoded(name, found)
        if value is not None and value.record() == record and not self._is_held(value):
            with self._connection.translated():
                self._drop(keys=[name], args=[found])

    def sweep(self, older_than_seconds: float, known_turns: set[str]) -> int:  # noqa: ARG002
        """Do nothing: Redis forgets keys by itself, some later than their turns."""
        return 0

    def replace(self, name: str, seen: _Value, new: _Value) -> bool:
        """Replace a value that is still the same, or was forgotten; return whether it was."""
        args = [_encoded(seen), _encoded(new), self._seconds]
        with self._connection.translated():
            return bool(self._keep(keys=self._places(name, seen), args=args))

    def settle(self, name: str, seen: _Value, new: _Value | None) -> None:
        """Replace a value or free its key, now or once Redis is back."""
        try:
            self._settle(name, seen, new)
        except StorageError as error:
            logger.warning("a key could not be let go of yet", extra={"reason": error.message})
            self.settle_later(name, seen, new)

    def settle_later(self, name: str, seen: _Value, new: _Value | None) -> None:
        """Replace a value or free its key once Redis is back, whether keys are used here or not.

        Until then others wait for a start that this process, which lives, has given up.
        """
        with self._lock:
            self._unsettled.append((name, seen, new))
        self._start_settling()

    def _start_settling(self) -> None:
        with self._lock:
            if self._is_settling:
                return
            settler = threading.Thread(
                target=self._settle_until_done, name="key-settler", daemon=True
            )
            settler.start()  # first: one that there is no room for leaves no flag
            self._is_settling = True

    def _settle_until_done(self) -> None:
        try:
            while True:
                time.sleep(SETTLE_SECONDS)
                with suppress(StorageError):  # it is tried again
                    self._settle_rest()
                with self._lock:
                    if not self._unsettled:
                        self._is_settling = False
                        return
        except Exception:
            logger.exception("keys could not be let go of; the next request with a key tries again")
            with self._lock:
                self._is_settling = False

    def _settle(self, name: str, seen: _Value, new: _Value | None) -> None:
        if new is not None:
            self.replace(name, seen, new)
            return
        args = [_encoded(seen), _GIVEN_UP_SECONDS]
        with self._connection.translated():
            self._give_up(keys=self._places(name, seen), args=args)

    def _catch_up(self) -> None:
        """Make up for what could not be done; what Redis refuses is not this key's fault.

        Raises:
            StorageUnavailable: Redis is away still.
        """
        try:
            self._settle_rest()
        except RedisError:
            logger.exception("a key could not be let go of")
            self._start_settling()

    def _settle_rest(self) -> None:
        """Make up for what could not be done while Redis was away.

        Raises:
            StorageUnavailable: It is away still.
            RedisError: It refuses one, which comes last from now on.
        """
        while self._unsettled:
            with suppress(IndexError):  # another thread does it
                rest = self._unsettled.pop()
                try:
                    self._settle(*rest)
                except StorageError:
                    self.settle_later(*rest)
                    raise
                except BaseException:
                    self._unsettled.insert(0, rest)
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
        """Return a value; one that makes no sense frees its key."""
        if found is None:
            return None
        try:
            if decode_as(found, _Version).version > VERSION:
                raise KeyOfOtherVersion
            return decode_as(found, _Value)
        except msgspec.MsgspecError:
            with self._connection.translated():
                self._drop(keys=[name], args=[found])
            return None

    def _places(self, name: str, value: _Value) -> list[str]:
        """Return the keys of a value, and of the mark that its start was given up."""
        return [name, f"{name}:{value.start}"]

    def _name(self, key: str) -> str:
        return self._connection.key("key", hashlib.sha256(key.encode()).hexdigest()[:40])


def _encoded(value: _Value) -> bytes:
    return msgspec.json.encode(value)
