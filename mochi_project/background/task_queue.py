"""Puts tasks on the queue that the background worker reads. Needs Django to be set up."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from django.db import DatabaseError, connections, transaction
from django.utils import timezone

if TYPE_CHECKING:
    from django_q.brokers.orm import ORM


class QueueUnavailable(Exception):
    """The queue's database is not there yet, or can't be used just now."""


class TaskQueue:
    """The queue of one data directory. A call blocks for milliseconds.

    Args:
        database: Its file, which the worker makes: whoever queues never does, so that its rights
            and its tables are right.
    """

    def __init__(self, database: Path) -> None:
        self._database = database

    def add_each(
        self, function: str, arguments: Sequence[str], *, delay_seconds: float = 0
    ) -> None:
        """Queue a call of a function for each of some arguments, all or none, at the cost of one.

        Args:
            function: Its dotted name; the worker imports it.
            arguments: Names only, never texts of people: the queue is signed and not encrypted.
            delay_seconds: The worker leaves it alone for so long.

        Raises:
            QueueUnavailable: They could not be queued.
        """
        from django_q.tasks import async_task  # noqa: PLC0415 - not before the first task

        if not self._database.exists():
            raise QueueUnavailable("no worker has made the queue yet")
        broker = _later(delay_seconds)
        try:
            with transaction.atomic():
                for argument in arguments:
                    async_task(function, argument, broker=broker)
        except DatabaseError as error:
            raise QueueUnavailable(str(error)) from error
        finally:
            connections.close_all()  # this thread's: threads come and go


def _later(delay_seconds: float) -> "ORM":
    """Return django-q2's broker, which hides a task from the worker until its lock is over."""
    from django_q.brokers.orm import ORM  # noqa: PLC0415 - not before the first task

    class Later(ORM):  # type: ignore[misc]  # django-q2 has no types
        def enqueue(self, task: str) -> object:
            lock = timezone.now() + timedelta(seconds=delay_seconds)
            return self.get_connection().create(key=self.list_key, payload=task, lock=lock).pk

    return Later()
