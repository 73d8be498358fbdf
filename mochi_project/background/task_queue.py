"""Queues tasks for the background worker with django-q2. Needs Django to be set up."""

import logging
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from django.db import DatabaseError, connections, transaction
from django.utils import timezone

if TYPE_CHECKING:
    from django_q.brokers.orm import ORM

logger = logging.getLogger(__name__)


class DatabaseTaskQueue:
    """Queues the tasks of one data directory; implements ``TaskQueue``.

    Args:
        database: Its file, which only the worker makes, so that its rights and its tables are
            right.
    """

    is_shared = False

    def __init__(self, database: Path) -> None:
        self._database = database

    def add(self, function: str, *arguments: str, delay_seconds: float) -> bool:
        """Queue a call of a function for each argument; the queue is signed and not encrypted."""
        from django_q.tasks import async_task  # noqa: PLC0415 - not before the first task

        if not self._database.exists():
            logger.debug("nothing was queued: no worker has made the queue yet")
            return False
        broker = _delayed(delay_seconds)
        try:
            with transaction.atomic():
                for argument in arguments:
                    async_task(function, argument, broker=broker)
        except DatabaseError as error:
            logger.debug("nothing was queued: %s", error)
            return False
        finally:
            connections.close_all()  # this thread's: threads come and go
        return True

    def hold(self, function: str, argument: str) -> bool:  # noqa: ARG002 - the port's
        """Let the one worker of this queue run everything."""
        return True

    def renew(self, function: str, argument: str) -> None:
        """Do nothing: there are no holds to renew."""

    def release(self, function: str, argument: str) -> None:
        """Do nothing: there are no holds to release."""


def _delayed(delay_seconds: float) -> "ORM":
    """Return django-q2's broker, which hides a task from the worker until its lock is over."""
    from django_q.brokers.orm import ORM  # noqa: PLC0415 - not before the first task

    class DelayedBroker(ORM):  # type: ignore[misc]  # django-q2 has no types
        def enqueue(self, task: str) -> object:
            lock = timezone.now() + timedelta(seconds=delay_seconds)
            return self.get_connection().create(key=self.list_key, payload=task, lock=lock).pk

    return DelayedBroker()
