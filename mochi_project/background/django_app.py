"""Registers the task queue as a Django app."""

from django.apps import AppConfig, apps


class TaskQueueConfig(AppConfig):
    """Configures django-q2, and imports its models only where a task is queued or run.

    They bring sqlite's backend along, and psutil where that is installed: a tenth of the time that
    the server takes to start. Nothing is missed: ``django_q.tasks`` and ``django_q.cluster`` import
    the models and signals that they need.
    """

    name = "django_q"
    default_auto_field = "django.db.models.AutoField"

    def import_models(self) -> None:
        """Leave the models for later; they register themselves here with their import."""
        self.models = apps.all_models[self.label]
