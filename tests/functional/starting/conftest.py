"""Real server processes, started as a person starts them."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.functional.processes import Process, run_process, start_process
from tests.functional.starting.person import Person

ROOT = Path(__file__).parents[3]
LISTENING = re.compile(r"^mochi-server listening on ((?:http://|unix:)\S+)$")
START_SECONDS = 60
STOP_SECONDS = 60
GRACE_SECONDS = "600"


@dataclass
class Started:
    """A server process, and what it printed so far."""

    process: Process
    url: str
    stderr_file: Path
    printed: list[str] = field(default_factory=list)

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Ask the server, on a connection of its own."""
        return httpx.get(f"{self.url}{path}", headers=headers, timeout=60, trust_env=False)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Send a signal and wait for the end, for which a server that waits itself is too slow."""
        self.process.send_signal(number)
        self.process.wait(timeout=STOP_SECONDS)

    @property
    def stderr(self) -> str:
        """Everything the process wrote to stderr."""
        return self.stderr_file.read_text()


Start = Callable[..., Started]


def clean_environment(**variables: str) -> dict[str, str]:
    """Return the environment without anybody's configuration, with the project importable."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MOCHI_", "DJANGO_"))}
    # A test that wants the worker says so: it costs a second of the processor.
    usual = {"MOCHI_BACKGROUND_WORKER": "false", "MOCHI_SHUTDOWN_GRACE_SECONDS": GRACE_SECONDS}
    return {**kept, "PYTHONPATH": str(ROOT), **usual, **variables}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command to its end, in an empty directory."""

    def run_command(
        command: Sequence[str], *, forks_code: bool = False, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return run_process(
            command,
            env=clean_environment(**variables),
            cwd=tmp_path,
            timeout=START_SECONDS,
            forks_code=forks_code,
        )

    return run_command


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start servers that end with the test; waits for the line that says they listen.

    Web processes are interpreters, or forked if the server has a zygote for them.
    """
    processes: list[Process] = []

    def start_server(
        *command: str,
        cwd: Path | None = None,
        has_zygote: bool = False,
        forks_code: bool = False,
        **variables: str,
    ) -> Started:
        stderr_file = tmp_path / f"stderr-{len(processes)}"
        with stderr_file.open("w") as stderr:
            process = start_process(
                command or [sys.executable, "-m", "mochi_server", "--port", "0"],
                cwd=cwd or tmp_path,
                env=clean_environment(**variables),
                stdout=subprocess.PIPE,
                stderr=stderr,
                has_zygote=has_zygote,
                forks_code=forks_code,
            )
        processes.append(process)
        assert process.stdout
        line = process.stdout.readline()
        match = LISTENING.match(line)
        assert match, f"printed {line!r}, stderr: {stderr_file.read_text()}"
        return Started(process, match[1], stderr_file, [line])

    yield start_server
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@pytest.fixture
def person(data_dir: Path) -> Iterator[Person]:
    somebody = Person(data_dir)
    yield somebody
    somebody.leaves()
