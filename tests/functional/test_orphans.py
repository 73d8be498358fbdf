"""What tests start ends with them, also if they are interrupted."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
TEST = """\
import json
import subprocess
import sys
import time
from pathlib import Path

from tests.functional.processes import ForkServer

WAIT = "import time; time.sleep(600)"
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WAIT!r}]); {WAIT}"


def test_that_is_interrupted(tmp_path):
    started = [subprocess.Popen([sys.executable, "-c", PARENT], start_new_session=True)]
    if sys.platform == "linux":
        command = [sys.executable, "-c", WAIT]
        server = ForkServer("tools")
        started.append(server.start(command, env={}, cwd=tmp_path, streams=(0, 1, 2)))
    Path("started.new").write_text(json.dumps([process.pid for process in started]))
    Path("started.new").rename("started")
    time.sleep(600)
"""


def test_what_tests_have_started_ends_with_an_interrupted_run(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(TEST)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    plugins = ["-p", "tests.environment", "-p", "no:django", "-p", "no:schemathesis"]

    run = subprocess.Popen(
        [sys.executable, "-P", "-m", "pytest", *plugins, "-n", "0"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "started").exists():
        assert run.poll() is None
        assert time.monotonic() < deadline, "nothing was started"
        time.sleep(0.02)
    started = [psutil.Process(pid) for pid in json.loads((tmp_path / "started").read_text())]
    family = psutil.Process(run.pid).children(recursive=True)
    assert set(started) < set(family)
    for process in started[1:]:  # its fork server may be the first to see the end
        process.parent().kill()

    run.terminate()
    run.wait(timeout=60)

    _, running = psutil.wait_procs(family, timeout=60)
    assert running == []
