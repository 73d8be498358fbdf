"""Nodes in network and process namespaces of their own; needs root."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.functional.processes import ROOT

SPACES = ("unshare", "-n", "-m")


def lacks() -> str | None:
    """Return why there can be no namespaces here."""
    if os.geteuid() != 0:
        return "needs root"
    if missing := [each for each in ("unshare", "ip", "redis-server") if not shutil.which(each)]:
        return f"needs {', '.join(missing)}"
    if subprocess.run([*SPACES, "-pf", "true"], capture_output=True, check=False).returncode:
        return "may make no namespaces"
    return None


@pytest.mark.timeout(240)
def test_machines_that_are_cut_off_or_die_are_sealed_by_others(tmp_path):
    """A node's network is gone, or all of its processes at once, with namespaces as machines have
    them: others seal its turns, in the same bytes everywhere. Plugged in again, it is one of them.
    """
    if reason := lacks():
        pytest.skip(reason)
    program = (sys.executable, "-m", "tests.cluster.partitions", str(tmp_path))
    done = subprocess.run(
        [*SPACES, *program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    logs = [path.read_text()[-2000:] for path in sorted(tmp_path.glob("log*"))]
    assert done.returncode == 0, (done.stdout, done.stderr[-4000:], logs)
