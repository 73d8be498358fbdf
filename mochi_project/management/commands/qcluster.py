"""``mochi-server qcluster``: run the background worker by itself, beside --no-worker servers."""

import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from mochi_project.app import current_pool
from mochi_project.background.supervisor import WorkerSupervisor
from mochi_project.configuration.config import ServerSettings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.console.command import MochiCommand
from mochi_project.process.startup import prepare_data_dir
from mochi_project.reachability import Stores

ASK_SECONDS = 1.0


class Command(MochiCommand):
    """Keeps the background worker of the data directory running until SIGINT or SIGTERM.

    Replaces django-q2's command: it makes the queue's database, restarts a dead worker, and shows
    in ``/health``. If another process keeps the worker already, it waits until that process ends.
    Of workers that share a queue in Redis each has a data directory of its own.
    """

    help = "Run the background worker by itself, beside servers started with --no-worker."
    data_dir = "unused"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take no arguments."""

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Keep the worker running until a signal."""
        services = current_pool().shared
        settings = services.get(ServerSettings)
        try:
            prepare_data_dir(settings)
            notes = services.get(Stores).check()
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        for note in notes:
            self.stderr.write(note)
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        supervisor = services.get(WorkerSupervisor)
        supervisor.start()
        self.stdout.write(f"the background worker of {settings.resolved_data_dir} runs")
        # On some systems an endless wait is not interrupted by signals.
        while not stopped.wait(ASK_SECONDS):
            pass
        supervisor.stop()
