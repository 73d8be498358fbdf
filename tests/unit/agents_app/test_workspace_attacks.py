"""What a command leaves running ends with it, also what hides in a session of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from agents_app.workspace import Workspace, WorkspaceError


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
def hidden(tmp_path: Path) -> Iterator[Path]:
    """Return the file in which the process that hides writes its id; it is ended at last."""
    path = tmp_path / "pid"
    yield path
    if path.exists():
        pid = int(path.read_text())
        if psutil.pid_exists(pid):
            os.kill(pid, 9)


def has_ended(path: Path) -> bool:
    deadline = time.monotonic() + 20
    while psutil.pid_exists(int(path.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not psutil.pid_exists(int(path.read_text()))


HIDE = "setsid sh -c 'echo $$ > pid; exec sleep 60' > /dev/null 2>&1"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="such processes are found on Linux only"
)


def test_a_process_in_a_session_of_its_own_ends_with_its_command(
    workspace: Workspace, hidden: Path
) -> None:
    workspace.run_cli_command(f"{HIDE} & while [ ! -s pid ]; do sleep 0.01; done")
    assert has_ended(hidden)


def test_a_process_in_a_session_of_its_own_ends_when_the_time_is_over(
    workspace: Workspace, hidden: Path
) -> None:
    with pytest.raises(WorkspaceError, match="was ended"):
        workspace.run_cli_command(f"{HIDE} & while :; do sleep 0.1; done", timeout_seconds=0.5)
    assert has_ended(hidden)


def test_a_process_that_no_parent_knows_and_that_will_not_end_ends(
    workspace: Workspace, hidden: Path
) -> None:
    (workspace.directory / "stubborn.sh").write_text(
        "trap '' TERM HUP INT\necho $$ > pid\nwhile :; do sleep 60; done\n"
    )
    workspace.run_cli_command(
        "(setsid sh -c '(setsid sh stubborn.sh &)' &); while [ ! -s pid ]; do sleep 0.01; done"
    )
    assert has_ended(hidden)


def test_processes_that_the_caller_has_itself_are_left_alone(workspace: Workspace) -> None:
    with subprocess.Popen(["sleep", "60"]) as own:
        assert workspace.run_cli_command("sleep 60 & echo done") == "exit code 0\ndone"
        assert own.poll() is None
        own.kill()
