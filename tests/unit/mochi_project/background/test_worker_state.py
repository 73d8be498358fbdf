"""How the worker is, as all processes see it; and how a worker is configured."""

import pytest

from mochi_project.background.supervisor import worker_environment
from mochi_project.background.worker_state import WorkerState, worker_state, write_state
from mochi_project.configuration.loading import MochiSettings
from sessions_app.store.holder import Holder
from tests.unit.chat.disk import FailingDisk


@pytest.fixture
def path(data_dir):
    return data_dir / ".mochi" / "worker.lock"


def test_all_see_how_the_worker_is_while_a_process_supervises_it(path):
    assert worker_state(path) is None
    assert not path.exists()  # asking leaves nothing behind

    holder = Holder.take(path)
    assert worker_state(path) == WorkerState(phase="starting")
    write_state(holder, WorkerState(phase="running", keeper=7, restarts=100))
    write_state(holder, WorkerState(phase="running", keeper=7, restarts=1))

    assert worker_state(path) == WorkerState(phase="running", keeper=7, restarts=1)
    holder.release()
    assert worker_state(path) is None


def test_who_asks_takes_nothing_from_the_supervisor(path):
    holder = Holder.take(path)
    for _ in range(100):
        assert worker_state(path) is not None
    assert holder.is_in_place
    holder.release()


def test_a_read_only_file_system_does_not_hide_how_the_worker_is(path, data_dir):
    holder = Holder.take(path)
    write_state(holder, WorkerState(phase="running"))
    with FailingDisk(data_dir).installed() as disk:
        disk.turn_read_only()
        assert worker_state(path) == WorkerState(phase="running")
        holder.release()
        assert worker_state(path) is None


def test_nonsense_is_a_worker_that_starts(path):
    holder = Holder.take(path)
    path.write_text("{")
    assert worker_state(path) == WorkerState()
    holder.release()


def test_a_link_is_never_followed(path, tmp_path):
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        Holder.take(path)
    assert worker_state(path) is None


def test_a_worker_is_configured_as_its_server(data_dir, monkeypatch):
    monkeypatch.chdir(data_dir)
    settings = MochiSettings(data_dir="here", ollama_host="http://box:1", test_mode=True)

    environment = worker_environment(settings, {"PATH": "/bin", "MOCHI_DATA_DIR": "here"})

    assert environment["MOCHI_DATA_DIR"] == str(data_dir / "here")
    assert environment["MOCHI_OLLAMA_HOST"] == "http://box:1"
    assert environment["DJANGO_SETTINGS_MODULE"] == "mochi_project.settings"
    assert environment["PATH"] == "/bin"
