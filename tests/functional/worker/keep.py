"""Keep a worker until stdin ends, as a web process does; says on stdout when it runs."""

import os
import sys

os.environ["DJANGO_SETTINGS_MODULE"] = "mochi_project.settings"

import django

django.setup()

from django.conf import settings  # noqa: E402

from mochi_project.background.supervisor import WorkerSupervisor  # noqa: E402
from mochi_project.process.startup import prepare_data_dir  # noqa: E402


def chores(*, worker_is_new: bool) -> None:
    """Say so when a worker has come up."""
    if worker_is_new:
        print("running", flush=True)


prepare_data_dir(settings.MOCHI)
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(int(os.environ.get("OPEN_FILES", "0")))]
keeper = WorkerSupervisor(settings.MOCHI, chores)
keeper.start()
print("kept", flush=True)
sys.stdin.read()
keeper.stop()
