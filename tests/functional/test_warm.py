"""The processes of the suite, and what starts their servers, are forked from a warm one."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.functional.processes import run_process

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or "PYTEST_XDIST_WORKER" not in os.environ,
    reason="nothing is forked here",
)
PROGRAM = "tests/warm/program.py"


def test_a_process_of_the_suite_is_forked_and_ends_on_signals() -> None:
    assert PROGRAM in " ".join(psutil.Process().parent().cmdline())
    assert "pydantic_ai" in sys.modules
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL


def test_what_starts_servers_is_forked_too(tmp_path: Path) -> None:
    ended = run_process([sys.executable, "-m", "mochi_server", "--version"], env={}, cwd=tmp_path)

    assert ended.returncode == 0
    started = [process.cmdline()[-1:] for process in psutil.Process().children()]
    assert ["servers"] not in started
