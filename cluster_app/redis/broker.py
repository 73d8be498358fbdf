"""Implements django-q2's broker on the Redis list of tasks. Requires a configured Django.

django-q2's own Redis broker supports neither Sentinels nor our key names.
"""

import logging
import time
from typing import Any

from django_q.brokers import Broker
from django_q.conf import Conf

from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.task_queue import as_text, list_key, note_worker
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)

WAIT_SECONDS = 1
AWAY_SECONDS = 1.0
"""The pause before an unreachable queue is tried again."""

TIMEOUT_SECONDS = 5.0
"""The reply timeout, which is longer than the wait for a task."""


class RedisBroker(Broker):  # type: ignore[misc]  # django-q2 has no types
    """Pops tasks from the list, and records that its worker is alive.

    A popped task is no longer in Redis; if its worker dies, the task is found again elsewhere.
    """

    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key)
        self._note = note_worker(self.connection)
        self._is_away = False

    def __setstate__(self, state: Any) -> None:
        """Unpickle it in a spawned process."""
        super().__setstate__(state)
        self._note = note_worker(self.connection)
        self._is_away = False

    def enqueue(self, task: str) -> int:
        """Append a task."""
        return int(self.connection.client.rpush(list_key(self.connection), task))

    def dequeue(self) -> list[tuple[None, str]] | None:
        """Pop a task, waiting up to a second; return None if there is none or Redis is unreachable.

        An error would end the whole worker together with its running task.
        """
        try:
            with self.connection.translated():
                found = self.connection.client.blpop([list_key(self.connection)], WAIT_SECONDS)
        except StorageError as error:
            self._tell(error)
            time.sleep(AWAY_SECONDS)
            return None
        self._is_away = False
        return [(None, as_text(found[1]))] if found else None

    def queue_size(self) -> int:
        """Return the number of waiting tasks."""
        return int(self.connection.client.llen(list_key(self.connection)))

    def ping(self) -> bool:
        """Return True, or raise an error of the connection."""
        return bool(self.connection.client.ping())

    def release(self) -> None:
        """Close the connections before a fork, so that processes do not share them."""
        self.connection.close()

    def info(self) -> str:
        """Return the name of the queue's backend."""
        return "Redis"

    def set_stat(self, key: str, value: str, timeout: int) -> None:  # noqa: ARG002 - django-q2's
        """Record that the cluster is alive; called every second. Log an outage of Redis once."""
        try:
            self._note(key.rpartition(":")[2])
        except StorageError as error:
            self._tell(error)
        else:
            self._is_away = False

    def _tell(self, error: StorageError) -> None:
        if not self._is_away:
            logger.warning("the queue can't be reached: %s", error.message)
        self._is_away = True

    @staticmethod
    def get_connection(list_key: str | None = None) -> RedisConnection:  # noqa: ARG004 - django-q2's
        """Return the Redis connection, which is opened on first use, after the forks."""
        return RedisConnection(Conf.REDIS, timeout_seconds=TIMEOUT_SECONDS)
