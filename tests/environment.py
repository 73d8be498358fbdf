"""Sets the environment of every test: no configuration, keys or home of whoever runs them.

A plugin of pytest's (``-p`` in pyproject.toml), because pytest-django reads the settings, and with
them the data directory, before any conftest is imported. Each process of the suite has directories
of its own, and what it starts ends with it.
"""

import atexit
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import orphans

TESTS = Path(__file__).parent
BYTECODE = TESTS.parent / ".pytest_cache/bytecode"
HALVES = (["unit"], ["architecture", "benchmarks", "cluster", "contract", "functional"])
"""Folders of tests that import about as much."""

AND_NOT_SLOW = " and not slow"
"""The end of the expression of markers in pyproject.toml."""

PROCESSES_A_CORE = 2.5
"""More than one: tests of servers wait for these to start and stop."""


def _make_directory() -> str:
    """Make a directory that goes with this process."""
    directory = tempfile.mkdtemp(prefix="mochi-tests-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


# Nothing of a developer's own configuration reaches a test.
for _name in [name for name in os.environ if name.startswith("MOCHI_") and "_E2E_" not in name]:
    del os.environ[_name]
# Nor do keys, with which a test would ask the real vendors; the live tests have names of their own.
for _vendor in ("ANTHROPIC", "GEMINI", "GOOGLE", "OPENAI", "OPENROUTER"):
    os.environ.pop(f"{_vendor}_API_KEY", None)
for _variable in ("MOCHI_DATA_DIR", "XDG_STATE_HOME"):
    os.environ[_variable] = _make_directory()
os.environ["MOCHI_BACKGROUND_WORKER"] = "false"  # tests/functional/worker starts it
# Hundreds of servers start here; compiling what they import would take longer than all else.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(BYTECODE)
    sys.dont_write_bytecode = False
subprocess.Popen = orphans.Popen  # type: ignore[misc]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Leave slow tests out of the whole suite alone: files and folders that are named run whole."""
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        config.option.markexpr = config.option.markexpr.replace(AND_NOT_SLOW, "")


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite in parallel, and what the command line names in this process."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return 0
    if not _are_compiled():
        _compile()
    return max(2, round(len(_cores()) * PROCESSES_A_CORE))


def _are_compiled() -> bool:
    """Return whether pytest has compiled tests with this interpreter before."""
    compiled = Path(importlib.util.cache_from_source(str(TESTS / "architecture" / "test_tests.py")))
    return any(compiled.parent.glob(f"test_*.{sys.implementation.cache_tag}-pytest-*.pyc"))


def _compile() -> None:
    """Compile tests and what they import: else each process would, all of it, at the same time."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-n", "0"]
    processes = [
        subprocess.Popen(
            [*command, *(str(TESTS / folder) for folder in folders)],
            cwd=TESTS.parent,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for folders in HALVES
    ]
    for process in processes:
        process.wait()  # what can't be collected is told where it is collected again


def _cores() -> range | set[int]:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)
