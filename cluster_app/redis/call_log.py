"""Keeps the log of tool calls as a list of Redis, newest first."""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from cluster_app.redis.connection import RedisConnection
from sessions_app.decoding import decoder_of
from tools_app.storage.call_log import KEPT, ToolExecution

_encode = msgspec.json.Encoder().encode
_decode = decoder_of(ToolExecution).decode


class RedisCallLog:
    """Keeps the last ``KEPT`` calls of all processes; implements ``CallLog``.

    Args:
        connection: Where the list is.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._key = connection.key("exec")

    def append(self, executions: Sequence[ToolExecution]) -> None:
        """Append records, and forget the oldest.

        Raises:
            StorageUnavailable: Redis is away; whether they were written is not known.
            StorageFull: It has no memory left.
        """
        if not executions:
            return
        with self._connection.translated():
            pipeline = self._connection.client.pipeline(transaction=False)
            pipeline.lpush(self._key, *map(_encode, executions[-KEPT:]))
            pipeline.ltrim(self._key, 0, KEPT - 1)
            pipeline.execute()

    def newest(self, limit: int, owner: str) -> Sequence[ToolExecution]:
        """Return an owner's newest records, newest first, without those that can't be read."""
        with self._connection.translated():
            records = self._connection.client.lrange(self._key, 0, KEPT - 1)
        found = []
        for record in records:
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                found.append(_decode(record))
        return [each for each in found if each.owner == owner][:limit]

    def close(self) -> None:
        """Do nothing: the connection is that of the whole process."""
