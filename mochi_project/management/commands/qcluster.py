"""``manage.py qcluster``: the background worker by itself, for servers with ``--no-worker``."""

import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mochi_project.background.supervisor import WorkerKeeper
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process.startup import prepare_data_dir
from mochi_project.wiring.services import get_services

ASK_SECONDS = 1.0


class Command(BaseCommand):
    """Keeps the worker of the data directory until SIGINT or SIGTERM.

    In the place of django-q2's command of that name: this one makes the queue's database, starts
    the worker anew when it dies, and shows in ``/health``. Where another process keeps the worker
    already, it waits until that is gone.
    """

    help = "Runs the background worker by itself, beside servers started with --no-worker."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take no arguments."""

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Keep the worker until a signal comes."""
        services = get_services()
        try:
            prepare_data_dir(services.settings)
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        keeper = WorkerKeeper(services.settings, services.summaries.queue_due)
        keeper.start()
        self.stdout.write(f"the background worker of {services.settings.resolved_data_dir} runs")
        # A wait without an end would not see the signal on every system.
        while not stopped.wait(ASK_SECONDS):
            pass
        keeper.stop()
