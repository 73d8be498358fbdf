"""Keeps a generation as a number of Redis."""

import logging

from cluster_app.redis.connection import RedisConnection
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)


class RedisGenerations:
    """Counts in one key; implements ``Generations``.

    Args:
        connection: Where the number is.
        name: Of what the generations are.
    """

    def __init__(self, connection: RedisConnection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._key = connection.key("gen", name)
        self._last = 0
        self._is_away = False

    def current(self) -> int:
        """Return the generation; while Redis is away the last that was known.

        Tools can be listed then as ever, and nobody can ask for a reload.
        """
        try:
            with self._connection.translated():
                self._last = int(self._connection.client.get(self._key) or 0)
            self._is_away = False
        except StorageError as error:
            if not self._is_away:
                logger.warning(
                    "reloads of other processes can't be seen now",
                    extra={"folder": self._name, "reason": error.message},
                )
            self._is_away = True
        return self._last

    def bump(self) -> None:
        """Add one.

        Raises:
            StorageUnavailable: Redis is away; whether it was added is not known.
            StorageFull: It has no memory left.
        """
        with self._connection.translated():
            self._connection.client.incr(self._key)
