"""Stores the records of a session as one Redis hash with the fields ``{name}.{kind}``.

Every put renews the TTL of the hash. A sorted set indexes the session ids by the time of their last
put, in microseconds.
"""

import secrets
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any

from cluster_app.redis.connection import RedisConnection
from sessions_app.errors import StorageError
from sessions_app.ids_and_clock import is_session_id

TAG_BYTES = 16
"""The length of the random prefix of each value, by which a writer recognizes its own."""
PASSAGE = 500  # the COUNT of a SCAN: keys that Redis examines without serving other clients

_STAMP = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZADD', KEYS[2], now, ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[3] * 1000)
"""
_PUT = f"""
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
{_STAMP}
return 1
"""
_PUT_NEW = f"""
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then
  if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
{_STAMP}
return 1
"""
_UNDO_PUT = f"""
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
{_STAMP}
"""


class RedisRecords:
    """Stores records in Redis; implements ``StampedRecords``.

    Args:
        connection: The Redis connection.
        folder: The first part of their keys.
        kinds: The valid kinds; fields of other kinds are ignored.
        seconds: The TTL of a session's records, renewed by each put.
    """

    def __init__(
        self, connection: RedisConnection, folder: str, *, kinds: Sequence[str], seconds: float
    ) -> None:
        self._connection = connection
        self._folder = folder
        self._kinds = frozenset(kinds)
        self._stamps = connection.key(f"{folder}_stamps")
        self._milliseconds = max(1, round(seconds * 1000))
        self._put = connection.script(_PUT)
        self._put_new = connection.script(_PUT_NEW)
        self._undo_put = connection.script(_UNDO_PUT)

    def sessions(self, unchanged_since: float) -> list[str]:
        """Return the sessions with records whose last put was not after that time.

        The age of a hash is computed from its remaining TTL.
        """
        prefix = self._connection.key(self._folder, "")
        with self._connection.translated():
            client = self._connection.client
            keys = [key.decode() for key in client.scan_iter(match=f"{prefix}*", count=PASSAGE)]
            pipeline = client.pipeline(transaction=False)
            pipeline.time()
            for key in keys:
                pipeline.pttl(key)
            (seconds, microseconds), *left = pipeline.execute()
        now = seconds + microseconds / 1e6
        found = []
        for key, milliseconds in zip(keys, left, strict=True):
            session_id = key.removeprefix(prefix)
            changed_at = now - (self._milliseconds - milliseconds) / 1000
            if milliseconds >= 0 and changed_at <= unchanged_since and is_session_id(session_id):
                found.append(session_id)
        return found

    def stamps(self) -> dict[str, Hashable]:
        """Return a stamp for each session with records; it differs after each put."""
        with self._connection.translated():
            client = self._connection.client
            found: Any = client.zrange(self._stamps, 0, -1, withscores=True)
        return {session_id.decode("utf-8", "replace"): score for session_id, score in found}

    def kinds(self, session_id: str) -> dict[str, set[str]]:
        """Return the session's record names, each with its kinds."""
        found: dict[str, set[str]] = {}
        if not is_session_id(session_id):
            return found
        with self._connection.translated():
            fields: Any = self._connection.client.hkeys(self._key(session_id))
        for field in fields:
            name, _, kind = field.decode("utf-8", "replace").rpartition(".")
            if name and kind in self._kinds:
                found.setdefault(name, set()).add(kind)
        return found

    def read(self, session_id: str, name: str, kind: str) -> bytes | None:
        """Return a record, or None if it does not exist."""
        if not is_session_id(session_id):
            return None
        with self._connection.translated():
            value: Any = self._connection.client.hget(self._key(session_id), f"{name}.{kind}")
        return None if value is None else bytes(value[TAG_BYTES:])

    def put(
        self, session_id: str, name: str, kind: str, data: bytes, *, exclusive: bool = False
    ) -> bool:
        """Store a record; return False if ``exclusive`` and it exists already.

        Raises:
            StorageUnavailable: Redis is unreachable. An exclusive put is undone, if Redis can be
                reached for that.
            StorageFull: Redis is out of memory.
        """
        value = secrets.token_hex(TAG_BYTES // 2).encode() + data
        put = self._put_new if exclusive else self._put
        try:
            is_stored = self._call(put, session_id, name, kind, value, self._milliseconds)
        except StorageError:
            if exclusive:
                with suppress(StorageError):  # the first error is the one to report
                    self._call(self._undo_put, session_id, name, kind, value, self._milliseconds)
            raise
        return bool(is_stored)

    def discard(self, session_id: str) -> None:
        """Delete all records of a session."""
        if is_session_id(session_id):
            with self._connection.translated():
                client = self._connection.client
                client.delete(self._key(session_id))
                client.zrem(self._stamps, session_id)

    def sweep(self, unchanged_since: float, is_foreign: Callable[[bytes], bool]) -> int:  # noqa: ARG002
        """Do nothing: records expire in Redis."""
        return 0

    def _call(
        self,
        script: Callable[..., Any],
        session_id: str,
        name: str,
        kind: str,
        *values: bytes | int,
    ) -> Any:
        with self._connection.translated():
            return script(
                keys=[self._key(session_id), self._stamps],
                args=[f"{name}.{kind}", *values, session_id],
            )

    def _key(self, session_id: str) -> str:
        return self._connection.key(self._folder, session_id)
