"""Locks across threads and processes."""

import subprocess
import sys
import threading

import pytest

from sessions_app.store.locks import FileLocks, locked_directory

HOLD = """
import sys
from pathlib import Path
from sessions_app.store.locks import FileLocks
with FileLocks(Path(sys.argv[1])).held("a", timeout_seconds=5):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_threads_take_turns(tmp_path):
    locks = FileLocks(tmp_path / "locks")
    inside, most = 0, 0

    def work():
        nonlocal inside, most
        for _ in range(50):
            with locks.held("a", timeout_seconds=10):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    locks.close()
    assert most == 1


def test_another_process_is_waited_for_and_its_death_frees_the_lock(tmp_path):
    locks = FileLocks(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(TimeoutError), locks.held("a", timeout_seconds=0.05):
            pytest.fail("both hold it")
        with locks.held("b", timeout_seconds=0.05):
            pass
        other.kill()
        with locks.held("a", timeout_seconds=5):
            pass
    locks.close()


def test_a_removed_lock_file_is_made_anew(tmp_path):
    locks, others = FileLocks(tmp_path), FileLocks(tmp_path)
    with locks.held("a", timeout_seconds=1):
        pass
    (tmp_path / "a.lock").unlink()
    with (
        locks.held("a", timeout_seconds=1),
        pytest.raises(TimeoutError),
        others.held("a", timeout_seconds=0.05),
    ):
        pytest.fail("both hold it")
    locks.close()
    others.close()


def test_an_error_inside_frees_the_lock(tmp_path):
    locks = FileLocks(tmp_path)
    with pytest.raises(KeyError), locks.held("a", timeout_seconds=1):
        raise KeyError
    with locks.held("a", timeout_seconds=0.05):
        pass
    locks.close()


def test_a_directory_itself_can_be_locked(tmp_path):
    with locked_directory(tmp_path, timeout_seconds=5) as is_locked:
        assert is_locked
        with locked_directory(tmp_path, timeout_seconds=0.01) as is_locked_too:
            assert not is_locked_too
    with locked_directory(tmp_path, timeout_seconds=0) as is_locked:
        assert is_locked
    assert list(tmp_path.iterdir()) == []
