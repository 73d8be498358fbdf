"""Has the processes of the suite, and what starts their servers, forked from a warm process."""

import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
FORK_SERVERS = "PYTEST_FORK_SERVERS"
"""The variable that names the folder of sockets where a process of the suite gets fork servers."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Begin the warm process, where a process may fork after it has imported so much."""
    if sys.platform != "linux":
        return
    directory = tempfile.TemporaryDirectory(prefix="mochi-warm-")
    listeners = []
    for name in ("servers", "vendors"):
        listeners.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        listeners[-1].bind(str(Path(directory.name) / name))
        listeners[-1].listen()
    ours, theirs = socket.socketpair()
    descriptors = [*(each.fileno() for each in listeners), theirs.fileno()]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MOCHI_", "DJANGO_"))}
    program = subprocess.Popen(
        [sys.executable, "-P", str(FOLDER / "program.py"), *map(str, descriptors)],
        env={**kept, "PYTHONPATH": str(ROOT)},
        pass_fds=descriptors,
    )
    for each in (*listeners, theirs):
        each.close()
    os.environ[FORK_SERVERS] = directory.name
    stub = [sys.executable, "-I", "-S", str(FOLDER / "worker.py")]
    for spec in specs:
        spec.python = shlex.join([*stub, str(Path(directory.name) / "vendors")])

    def end() -> None:
        ours.close()
        program.wait()
        directory.cleanup()

    config.add_cleanup(end)
