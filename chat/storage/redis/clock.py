"""Reads the clock of Redis, which is the same for every machine."""

from datetime import UTC, datetime, timedelta

from sessions_app.store.redis.connection import RedisConnection


class RedisClock:
    """Returns the time, with a time zone; no machine's wall clock is asked. Calls block.

    Each call asks Redis. So whoever has read a record, and asks then, gets a later time than the
    one who asked before putting it, however long either of them took.

    Args:
        connection: Whose time it is.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection

    def __call__(self) -> datetime:
        """Return the time.

        Raises:
            StorageUnavailable: Redis is away.
        """
        with self._connection.translated():
            seconds, microseconds = self._connection.client.time()
        return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)
