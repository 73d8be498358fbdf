"""Who keeps the worker, as all processes see it; and how a worker is configured."""

import os
import stat
import subprocess
import sys

import pytest

from mochi_project.background.lock import WorkerLock, WorkerState, worker_state
from mochi_project.background.supervisor import worker_environment
from mochi_project.configuration.config import MochiSettings
from tests.unit.chat.disk import FailingDisk


@pytest.fixture
def path(data_dir):
    return data_dir / ".mochi" / "worker.lock"


def test_one_process_has_the_lock_and_all_see_how_its_worker_is(path):
    first, second = WorkerLock(path), WorkerLock(path)
    assert worker_state(path) is None
    assert not path.exists()  # asking leaves nothing behind

    assert first.acquire()
    assert worker_state(path) == WorkerState(phase="starting")
    first.note(WorkerState(phase="running", keeper=7, restarts=100))
    first.note(WorkerState(phase="running", keeper=7, restarts=1))

    assert worker_state(path) == WorkerState(phase="running", keeper=7, restarts=1)
    assert not second.acquire()
    assert first.is_held
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first.release()
    assert worker_state(path) is None
    assert second.acquire()
    second.release()
    second.release()


def test_who_asks_takes_nothing_from_the_keeper(path):
    lock = WorkerLock(path)
    assert lock.acquire()
    for _ in range(100):
        assert worker_state(path) is not None
    assert lock.is_held


def test_a_read_only_file_system_does_not_hide_how_the_worker_is(path, data_dir):
    lock = WorkerLock(path)
    assert lock.acquire()
    lock.note(WorkerState(phase="running"))
    with FailingDisk(data_dir).installed() as disk:
        disk.turn_read_only()
        assert worker_state(path) == WorkerState(phase="running")
        lock.release()
        assert worker_state(path) is None


def test_a_lock_whose_file_was_removed_is_lost(path):
    first, second = WorkerLock(path), WorkerLock(path)
    assert first.acquire()
    path.unlink()
    assert not first.is_held
    assert second.acquire()
    first.release()
    second.release()


def test_the_lock_of_a_dead_process_is_free(path):
    code = f"""
import os
from pathlib import Path
from mochi_project.background.lock import WorkerLock, WorkerState
lock = WorkerLock(Path({str(path)!r}))
lock.acquire()
lock.note(WorkerState(phase="running"))
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ})
    assert path.exists()
    assert worker_state(path) is None
    lock = WorkerLock(path)
    assert lock.acquire()
    lock.release()


def test_only_the_holder_writes_and_nonsense_is_a_worker_that_starts(path):
    lock = WorkerLock(path)
    with pytest.raises(RuntimeError):
        lock.note(WorkerState())
    assert lock.acquire()
    path.write_text("{")
    assert worker_state(path) == WorkerState()
    lock.release()


def test_a_link_is_never_followed(path, tmp_path):
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        WorkerLock(path).acquire()
    assert worker_state(path) is None


def test_a_worker_is_configured_as_its_server(data_dir, monkeypatch):
    monkeypatch.chdir(data_dir)
    settings = MochiSettings(data_dir="here", ollama_host="http://box:1", test_mode=True)

    environment = worker_environment(settings, {"PATH": "/bin", "MOCHI_DATA_DIR": "here"})

    assert environment["MOCHI_DATA_DIR"] == str(data_dir / "here")
    assert environment["MOCHI_OLLAMA_HOST"] == "http://box:1"
    assert environment["DJANGO_SETTINGS_MODULE"] == "mochi_project.settings"
    assert environment["PATH"] == "/bin"
