"""Queues tasks for the background worker with django-q2. Requires a configured Django."""

import logging
from pathlib import Path

from django.db import DatabaseError, connections, transaction

logger = logging.getLogger(__name__)


class DatabaseTaskQueue:
    """Queues the tasks of one data directory; implements ``TaskQueue``.

    Args:
        database: The database file, which only the worker creates, with the right permissions and
            tables.
    """

    def __init__(self, database: Path) -> None:
        self._database = database

    def add(self, function: str, *arguments: str, delay_seconds: float) -> bool:
        """Queue calls of a function; the queue is signed and not encrypted."""
        from django_q.tasks import async_task  # noqa: PLC0415 - not before the first task

        from mochi_project.background.delaying_broker import DelayingBroker  # noqa: PLC0415

        if not self._has_begun():
            logger.debug("nothing was queued: no worker has created the queue yet")
            return False
        broker = DelayingBroker(delay_seconds)
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

    def _has_begun(self) -> bool:
        """Return whether the worker has written to the database's file.

        Who opens an empty one beside the worker has SQLite refuse one of the two at once, with
        "database is locked": both change its journal mode, and where waiting could be a deadlock
        there is none (https://www.sqlite.org/c3ref/busy_handler.html).
        """
        try:
            return self._database.stat().st_size > 0
        except FileNotFoundError:
            return False

    def hold(self, function: str, argument: str) -> bool:  # noqa: ARG002 - the port's
        """Return True: this queue has only one worker."""
        return True

    def renew(self, function: str, argument: str) -> None:
        """Do nothing: there are no leases."""

    def release(self, function: str, argument: str) -> None:
        """Do nothing: there are no leases to end."""
