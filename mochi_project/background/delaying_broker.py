"""Adds tasks that a worker sees later. Requires a configured Django."""

from datetime import timedelta

from django.utils import timezone
from django_q.brokers.orm import ORM


class DelayingBroker(ORM):  # type: ignore[misc]  # django-q2 has no types
    """Adds tasks to django-q2's table.

    Args:
        delay_seconds: How long a new task stays invisible.
    """

    def __init__(self, delay_seconds: float) -> None:
        super().__init__()
        self._delay = timedelta(seconds=delay_seconds)

    def enqueue(self, task: str) -> None:
        """Append a task."""
        visible_at = timezone.now() + self._delay
        self.get_connection().create(key=self.list_key, payload=task, lock=visible_at)
