"""Stores the records of a group as one Redis hash, whose fields are their names in the group.

A record without a group is a hash of its own, with the field "".

Every put renews the TTL of the hash. A sorted set indexes the groups by the time of their last put,
in microseconds.
"""

import re
import secrets
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from typing import Any

from cluster_app.redis.connection import RedisConnection
from sessions_app.errors import StorageError
from sessions_app.store.atomic import UnreadableFileError

TAG_BYTES = 16
"""The length of the random prefix of each value, by which a writer recognizes its own."""

_STAMP = """
if ARGV[3] ~= '' and ARGV[4] ~= '' then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  redis.call('ZADD', KEYS[2], now, ARGV[4])
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[3] * 1000)
end
"""
_PUT = f"""
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if ARGV[3] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
{_STAMP}
return 1
"""
_PUT_OLD = f"""
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
{_PUT}
"""
_PUT_NEW = f"""
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then
  if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
end
{_PUT}
"""
_PUTS = {None: _PUT, True: _PUT_OLD, False: _PUT_NEW}
_SWAP = f"""
local found = redis.call('HGET', KEYS[1], ARGV[1])
if found == ARGV[2] then return 1 end
if not found or string.sub(found, {TAG_BYTES + 1}) ~= ARGV[5] then return 0 end
if #ARGV[2] == 0 then return redis.call('HDEL', KEYS[1], ARGV[1]) end
{_PUT}
"""
_UNDO_PUT = f"""
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
{_STAMP}
"""


class RedisRecords:
    """Stores records in Redis; implements ``SharedRecords``.

    Args:
        connection: The Redis connection.
        folder: The first part of their keys.
        names: A regular expression for names, with their group; other fields are ignored.
        seconds: The TTL of a group, or of a record without one, renewed by each put; None keeps
            them, without stamps.
    """

    def __init__(
        self,
        connection: RedisConnection,
        folder: str,
        *,
        names: str,
        seconds: float | None = None,
    ) -> None:
        self._connection = connection
        self._folder = folder
        self._is_ours = re.compile(names, re.ASCII).fullmatch
        self._stamps = connection.key(f"{folder}_stamps")
        self._milliseconds = "" if seconds is None else max(1, round(seconds * 1000))

    def names(self, group: str = "") -> list[str]:
        """Return the names in a group in order, or those without a group, by a scan of Redis."""
        before = self._connection.key(self._folder, "")
        with self._connection.translated():
            client = self._connection.client
            found: Any = client.hkeys(before + group) if group else client.scan_iter(f"{before}*")
            texts = [each.decode("utf-8", "replace") for each in found]
        names = [f"{group}/{text}" if group else text.removeprefix(before) for text in texts]
        return sorted(filter(self._is_ours, names))

    def changed_at(self) -> dict[str, float]:
        """Return nothing: records expire in Redis."""
        return {}

    def stamps(self) -> dict[str, Hashable]:
        """Return a stamp for each group with records; it differs after each put."""
        with self._connection.translated():
            client = self._connection.client
            found: Any = client.zrange(self._stamps, 0, -1, withscores=True)
        return {group.decode("utf-8", "replace"): score for group, score in found}

    def read(self, name: str) -> bytes | None:
        """Return a record, or None if it does not exist."""
        if not self._is_ours(name):
            return None
        with self._connection.translated():
            value: Any = self._connection.client.hget(*self._place(name))
        return None if value is None else bytes(value[TAG_BYTES:])

    def read_all(self, matches: Callable[[str], bool]) -> Mapping[str, bytes | UnreadableFileError]:
        """Return the records without a group whose name matches."""
        found = {name: self.read(name) for name in filter(matches, self.names())}
        return {name: data for name, data in found.items() if data is not None}

    def put(self, name: str, data: bytes, *, exists: bool | None = None) -> bool:
        """Store a record, depending on whether it exists; return whether it was stored.

        Raises:
            StorageUnavailable: Redis is unreachable. A put that creates is undone, if Redis can be
                reached for that.
            StorageFull: Redis is out of memory.
        """
        value = _tagged(data)
        try:
            return bool(self._call(_PUTS[exists], name, value))
        except StorageError:
            if exists is False:
                with suppress(StorageError):  # the first error is the one to report
                    self._call(_UNDO_PUT, name, value)
            raise

    def delete(self, name: str) -> bool:
        """Delete a record; return whether it existed."""
        if not self._is_ours(name):
            return False
        with self._connection.translated():
            return bool(self._connection.client.hdel(*self._place(name)))

    def swap(self, name: str, expected: bytes, data: bytes | None) -> bool:
        """Replace or delete a record that still is ``expected``; return whether it was.

        Raises:
            StorageUnavailable: Redis is unreachable; whether it was is unknown.
            StorageFull: Redis is out of memory.
        """
        return bool(self._call(_SWAP, name, b"" if data is None else _tagged(data), expected))

    def discard(self, group: str) -> None:
        """Delete all records of a group."""
        with self._connection.translated():
            client = self._connection.client
            client.delete(self._connection.key(self._folder, group))
            client.zrem(self._stamps, group)

    def _call(self, lua: str, name: str, *values: bytes) -> Any:
        key, field = self._place(name)
        group = name.rpartition("/")[0]
        value, *seen = values
        args = [field, value, self._milliseconds, group, *seen]
        return self._connection.run(lua, key, self._stamps, args=args)

    def _place(self, name: str) -> tuple[str, str]:
        """Return the key and the field of a record."""
        first, _, field = name.partition("/")
        return self._connection.key(self._folder, first), field


def _tagged(data: bytes) -> bytes:
    return secrets.token_hex(TAG_BYTES // 2).encode() + data
