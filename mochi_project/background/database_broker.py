"""Implements django-q2's broker on the SQLite table of tasks. Requires a configured Django.

django-q2's own broker builds its ORM queries again for each poll, five times a second, and three
times for a task. These are the same queries on the same table as constant SQL.
"""

import time
from datetime import datetime, timedelta

from django.db import close_old_connections, connections
from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.conf import Conf

_FIND = "SELECT id, payload FROM django_q_ormq WHERE key = %s AND lock < %s ORDER BY id LIMIT 1"
_TAKE = "UPDATE django_q_ormq SET lock = %s WHERE id = %s AND lock < %s"
_ADD = "INSERT INTO django_q_ormq (key, payload, lock) VALUES (%s, %s, %s)"
_REMOVE = "DELETE FROM django_q_ormq WHERE id = %s"


class DatabaseBroker(ORM):  # type: ignore[misc]  # django-q2 has no types
    """Adds tasks to the table and takes them from it.

    Args:
        list_key: The name of the queue; None for django-q2's default.
        delay_seconds: How long a new task stays invisible.
    """

    def __init__(self, list_key: str | None = None, *, delay_seconds: float = 0.0) -> None:
        super().__init__(list_key)
        self._delay = timedelta(seconds=delay_seconds)

    def __setstate__(self, state: tuple[str, str | None]) -> None:
        """Unpickle it in a spawned process."""
        super().__setstate__(state)
        self._delay = timedelta()

    def enqueue(self, task: str) -> None:
        """Append a task."""
        with connections[Conf.ORM].cursor() as cursor:
            cursor.execute(_ADD, [self.list_key, task, _text(timezone.now() + self._delay)])

    def dequeue(self) -> list[tuple[int, str]] | None:
        """Take the first visible task; return None after a pause if there is none.

        The task stays in the table, invisible, until it is acknowledged.
        """
        close_old_connections()
        now = timezone.now()
        with connections[Conf.ORM].cursor() as cursor:
            cursor.execute(_FIND, [self.list_key, _text(now)])
            found = cursor.fetchone()
            if found is not None:
                hidden_until = _text(now + timedelta(seconds=Conf.RETRY))
                cursor.execute(_TAKE, [hidden_until, found[0], _text(now)])
                return [found] if cursor.rowcount else None
        time.sleep(Conf.POLL)
        return None

    def delete(self, task_id: int) -> None:
        """Remove a task that has ended or can't be read."""
        close_old_connections()
        with connections[Conf.ORM].cursor() as cursor:
            cursor.execute(_REMOVE, [task_id])


def _text(moment: datetime) -> str:
    """Format a time as in the table."""
    return str(connections[Conf.ORM].ops.adapt_datetimefield_value(moment))
