"""Queues tasks for the background worker with django-q2. Needs Django to be set up."""

import logging
from pathlib import Path

from django.db import DatabaseError, connections, transaction

logger = logging.getLogger(__name__)

ARGUMENTS_OF_A_CALL = 20
"""Most of what a task costs django-q2 does not depend on how much the task does."""


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
        """Queue calls of a function; the queue is signed and not encrypted."""
        from django_q.tasks import async_task  # noqa: PLC0415 - not before the first task

        from mochi_project.background.database_broker import DatabaseBroker  # noqa: PLC0415

        if not self._database.exists():
            logger.debug("nothing was queued: no worker has made the queue yet")
            return False
        broker = DatabaseBroker(delay_seconds=delay_seconds)
        try:
            with transaction.atomic():
                for at in range(0, len(arguments), ARGUMENTS_OF_A_CALL):
                    async_task(function, *arguments[at : at + ARGUMENTS_OF_A_CALL], broker=broker)
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
