"""Reads the clock of the Redis server, which all machines share."""

from datetime import UTC, datetime, timedelta

from cluster_app.redis.connection import RedisConnection


class RedisClock:
    """Returns the Redis server's time, with a time zone. Calls block.

    Each call queries Redis, so times are ordered across machines: a time read after reading a
    record is later than one read before writing that record.

    Args:
        connection: The Redis connection.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection

    def __call__(self) -> datetime:
        """Return the current time.

        Raises:
            StorageUnavailable: Redis cannot be reached.
        """
        with self._connection.translated():
            seconds, microseconds = self._connection.client.time()
        return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)
