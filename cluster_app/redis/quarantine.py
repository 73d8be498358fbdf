"""Keeps unreadable journals and lines in Redis until their session is deleted.

::

    broken:{session}:{turn}        list: the unreadable appends of a journal
    broken:{session}:{turn}:copy   stream: a whole journal
    aside:{session}                set: the keys of the session's journals and lines
    aside-known                    whether each key of earlier releases is in such a set
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from cluster_app.redis.connection import RedisConnection
from sessions_app.errors import StorageFull

SCAN_COUNT = 500


class Quarantine:
    """Keeps what was set aside of a storage's journals. Calls block; all raise ``StorageError``.

    Args:
        connection: The Redis connection, with the storage's key prefix.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._beginning = connection.key("broken", "")
        self._known = connection.key("aside-known")
        self._is_known = False

    def move_lines(
        self, session_id: str, turn_id: str, stream: str, entry_id: bytes, lines: bytes
    ) -> None:
        """Move one append of a stream."""
        aside = f"{self._beginning}{session_id}:{turn_id}"
        with self._connection.translated(), self._connection.client.pipeline() as pipeline:
            pipeline.sadd(self._kept(session_id), aside)
            pipeline.rpush(aside, lines)
            pipeline.xdel(stream, entry_id)
            pipeline.execute()

    def copy(self, session_id: str, turn_id: str, stream: str) -> None:
        """Copy a stream, without its TTL."""
        aside = f"{self._beginning}{session_id}:{turn_id}:copy"
        with self._connection.translated(), self._connection.client.pipeline() as pipeline:
            pipeline.sadd(self._kept(session_id), aside)
            pipeline.copy(stream, aside, replace=True)
            pipeline.persist(aside)
            pipeline.execute()

    def all(self) -> Iterator[str]:
        """Yield the keys of all journals and lines."""
        with self._connection.translated():
            client = self._connection.client
            for key in client.scan_iter(match=f"{self._beginning}*", count=SCAN_COUNT):
                yield key.decode()

    def discard(self, session_id: str) -> None:
        """Delete what was set aside of a session."""
        kept = self._kept(session_id)
        with self._connection.translated():
            found: Any = self._connection.client.smembers(kept)
        keys = [*found, *self._keys_of_earlier_releases(session_id)]
        if keys:
            with self._connection.translated():
                self._connection.client.delete(*keys, kept)

    def _keys_of_earlier_releases(self, session_id: str) -> Sequence[str]:
        """Return the keys of a session that are in no set, and put all such keys into sets.

        This takes a scan of all keys, once for each storage.
        """
        client = self._connection.client
        with self._connection.translated():
            self._is_known = self._is_known or bool(client.exists(self._known))
        if self._is_known:
            return ()
        keys_by_session: dict[str, list[str]] = {}
        for key in self.all():
            owner = key.removeprefix(self._beginning).partition(":")[0]
            keys_by_session.setdefault(owner, []).append(key)
        with suppress(StorageFull), self._connection.translated():  # deleting needs no memory
            for owner, keys in keys_by_session.items():
                client.sadd(self._kept(owner), *keys)
            client.set(self._known, 1)
        return keys_by_session.get(session_id, ())

    def _kept(self, session_id: str) -> str:
        return self._connection.key("aside", session_id)
