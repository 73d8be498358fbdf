"""Files of processes that count are kept while anybody counts, and their gauges while they live."""

import os
import subprocess
import sys

import pytest

from usage_app.metrics.shared_files import SharedFiles


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "metrics"


@pytest.fixture
def files(directory):
    files = SharedFiles(directory)
    files.open()
    yield files
    files.close()


@pytest.fixture
def dead():
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def names(directory):
    return {file.name for file in directory.glob("*.db")}


def test_who_comes_first_begins_anew(directory):
    directory.mkdir()
    (directory / "counter_1.db").touch()

    files = SharedFiles(directory)
    files.open()
    files.close()

    assert names(directory) == set()


def test_who_comes_while_another_counts_leaves_its_files(directory, files):
    (directory / "counter_1.db").touch()
    other = SharedFiles(directory)

    other.open()
    other.close()

    assert names(directory) == {"counter_1.db"}


def test_what_processes_leave_is_kept_until_the_last_one_ends(directory, files, dead):
    (directory / f"counter_{dead}.db").touch()
    later = SharedFiles(directory)
    later.open()
    files.close()
    SharedFiles(directory).open()
    assert names(directory) == {f"counter_{dead}.db"}


def test_a_process_killed_in_mid_count_holds_nobody_up(directory):
    script = (
        "import sys; from pathlib import Path; from usage_app.metrics.shared_files import *\n"
        "SharedFiles(Path(sys.argv[1])).open(); print('here', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"here\n"
        (directory / "counter_1.db").touch()
        process.kill()

    files = SharedFiles(directory)
    files.open()
    files.close()
    assert names(directory) == set()


def test_the_gauges_of_the_dead_are_forgotten_and_their_counters_are_not(directory, files, dead):
    mine = os.getpid()
    for pid in (mine, dead):
        (directory / f"gauge_livesum_{pid}.db").touch()
        (directory / f"counter_{pid}.db").touch()

    files.forget_dead()

    assert names(directory) == {
        f"counter_{dead}.db",
        f"counter_{mine}.db",
        f"gauge_livesum_{mine}.db",
    }


def test_a_process_forgets_the_gauges_of_one_that_had_its_number(directory, files):
    (directory / f"gauge_livemax_{os.getpid()}.db").touch()
    again = SharedFiles(directory)

    again.open()
    again.close()

    assert names(directory) == set()
