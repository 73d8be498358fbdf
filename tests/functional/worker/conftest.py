"""Keepers of workers in processes of their own, and the queue between us and them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from django.conf import settings
from django.db import connections

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("keep.py")


@dataclass
class Keeper:
    """A process that keeps a worker, or waits to."""

    process: subprocess.Popen[str]
    seen: list[psutil.Process] = field(default_factory=list)

    def wait_until_running(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline() == "running\n"

    @property
    def family(self) -> list[psutil.Process]:
        """The worker's processes: the first is the one that the keeper started."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        self.seen += children
        return children

    def stop(self) -> None:
        """Let it stop, and wait until it has."""
        self.process.communicate(timeout=60)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for member in self.seen:
            if member.is_running():
                member.kill()
        self.process.communicate()


StartKeeper = Callable[..., Keeper]


@pytest.fixture
def keep() -> Iterator[StartKeeper]:
    """Start keepers; they end with the test, and their workers with them."""
    keepers: list[Keeper] = []

    def start(**variables: str) -> Keeper:
        process = subprocess.Popen(
            [sys.executable, PROGRAM],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                # Rows are made in this process, whose queue must be the worker's.
                "MOCHI_DATA_DIR": str(settings.MOCHI.resolved_data_dir),
                **variables,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        keepers.append(Keeper(process))
        assert process.stdout
        assert process.stdout.readline() == "kept\n"
        return keepers[-1]

    yield start
    for keeper in keepers:
        keeper.end()


@pytest.fixture
def queue(django_db_blocker) -> Iterator[None]:  # type: ignore[no-untyped-def]
    """Open the real queue, a new one: a test database would be another than the worker's."""
    for file in settings.MOCHI.resolved_state_dir.glob("queue.sqlite3*"):
        file.unlink()  # with what other tests of this process have queued, and what came of it
    with django_db_blocker.unblock():
        yield
        connections.close_all()
