"""Implements django-q2's broker on the Redis list of tasks. Needs Django to be set up.

django-q2's own broker for Redis knows neither Sentinels nor our names of keys.
"""

import logging
import time
from typing import Any

from django_q.brokers import Broker
from django_q.conf import Conf

from mochi_project.background.redis_queue import list_key, note_worker
from sessions_app.errors import StorageError
from sessions_app.store.redis.connection import RedisConnection

logger = logging.getLogger(__name__)

WAIT_SECONDS = 1
AWAY_SECONDS = 1.0
"""The pause after which a queue is asked again that was away."""

TIMEOUT_SECONDS = 5.0
"""Of one answer; longer than the wait for a task."""


class RedisBroker(Broker):  # type: ignore[misc]  # django-q2 has no types
    """Pops tasks from the list, and says that its worker lives.

    A task that was popped is not in Redis any more: should its worker die, it is found again.
    """

    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key)
        self._note = note_worker(self.connection)
        self._is_away = False

    def __setstate__(self, state: Any) -> None:
        """Restore it in a process that was not forked."""
        super().__setstate__(state)
        self._note = note_worker(self.connection)
        self._is_away = False

    def enqueue(self, task: str) -> int:
        """Append a task."""
        return int(self.connection.client.rpush(list_key(self.connection), task))

    def dequeue(self) -> list[tuple[None, str]] | None:
        """Pop a task, which may take a second; None if there is none, or the queue is away.

        An error would end the whole worker, with the task that it just runs.
        """
        try:
            with self.connection.translated():
                found = self.connection.client.blpop([list_key(self.connection)], WAIT_SECONDS)
        except StorageError as error:
            self._tell(error)
            time.sleep(AWAY_SECONDS)
            return None
        self._is_away = False
        return [(None, _text(found[1]))] if found else None

    def queue_size(self) -> int:
        """Return the number of tasks that wait."""
        return int(self.connection.client.llen(list_key(self.connection)))

    def ping(self) -> bool:
        """Return True, or raise an error of the connection."""
        return bool(self.connection.client.ping())

    def release(self) -> None:
        """Close the connections before a fork: nothing of them is to be in two processes."""
        self.connection.close()

    def info(self) -> str:
        """Return what the queue is in."""
        return "Redis"

    def set_stat(self, key: str, value: str, timeout: int) -> None:  # noqa: ARG002 - django-q2's
        """Note that the cluster lives; called once a second. While Redis is away: log it once."""
        try:
            with self.connection.translated():
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
        """Return the way to Redis; it is opened where it is used, after the forks."""
        return RedisConnection(Conf.REDIS, timeout_seconds=TIMEOUT_SECONDS)


def _text(task: bytes | str) -> str:
    return task.decode() if isinstance(task, bytes) else task
