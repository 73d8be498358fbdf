"""Registers the task queue as a Django app."""

from django.apps import AppConfig, apps


class TaskQueueConfig(AppConfig):
    """Configures django-q2, and imports its models only when a task is queued or run.

    They import the SQLite backend, and psutil if installed, which takes a tenth of the server's
    start. ``django_q.tasks`` and ``django_q.cluster`` import the models and signals they need.
    """

    name = "django_q"
    default_auto_field = "django.db.models.AutoField"

    def import_models(self) -> None:
        """Do nothing: the models register themselves here when imported."""
        self.models = apps.all_models[self.label]
