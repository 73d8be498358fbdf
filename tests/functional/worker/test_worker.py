"""The background worker: one at a time, whatever dies, and nothing of it stays behind."""

import signal
import stat
import time
from pathlib import Path

import psutil
import pytest
from django.conf import settings
from django.utils import timezone
from django_q.models import Failure, OrmQ, Success
from django_q.signing import SignedPackage
from model_bakery import baker

from mochi_project.background.task_queue import DatabaseTaskQueue
from mochi_project.background.worker_state import worker_state
from tests.functional.conftest import lives

pytestmark = pytest.mark.slow

STATE_DIR = settings.MOCHI.resolved_state_dir
DATABASE = Path(settings.DATABASES["default"]["NAME"])


def until(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


def queued(function, *arguments):
    """Make a row of the queue, as django-q2 does; what becomes of it is noted."""
    task = {
        "id": f"{time.monotonic_ns():032x}",
        "name": "a-task",
        "func": function,
        "args": arguments,
        "kwargs": {},
        "save": True,
        "started": timezone.now(),
        "ack_failure": True,
    }
    return baker.make(OrmQ, key="mochi", payload=SignedPackage.dumps(task), lock=task["started"])


def state():
    return worker_state(STATE_DIR / "worker.lock")


def test_tasks_run_and_are_not_seen_before_their_time(keep, queue):
    keeper = keep()
    keeper.wait_until_running()
    assert state().phase == "running"
    for entry in STATE_DIR.glob("queue.sqlite3*"):
        assert stat.S_IMODE(entry.stat().st_mode) == 0o600

    queued("os.path.basename", "/tmp/now")
    assert DatabaseTaskQueue(DATABASE).add("os.path.basename", "/tmp/later", delay_seconds=3600)
    until(lambda: Success.objects.filter(result__isnull=False).exists())

    assert Success.objects.get().result == "now"
    until(lambda: OrmQ.objects.count() == 1)  # it is taken off the queue after it was noted
    assert DatabaseTaskQueue(DATABASE).add("os.path.basename", "/tmp/unnoted", delay_seconds=0)
    until(lambda: OrmQ.objects.count() == 1)
    assert Success.objects.count() == 1  # of tasks of ours nobody reads what became of them
    queued("os.path.no_such_function")
    until(Failure.objects.exists)
    until(lambda: OrmQ.objects.count() == 1)  # a task that fails is not tried for ever

    keeper.stop()
    assert state() is None
    assert not any(lives(member) for member in keeper.seen)


def test_a_worker_of_which_any_process_dies_is_started_anew(keep, queue):
    keeper = keep()
    keeper.wait_until_running()
    old = keeper.family
    assert len(old) == 5

    idle_task_runner = old[2]  # it dies with the queue's lock in its hands
    idle_task_runner.kill()
    until(lambda: not any(lives(member) for member in old))
    keeper.wait_until_running()
    assert (state().phase, state().restarts) == ("running", 1)
    queued("os.path.basename", "/tmp/again")
    until(lambda: Success.objects.filter(args=("/tmp/again",)).exists())

    keeper.stop()


def test_a_killed_keeper_takes_its_worker_along_and_another_takes_over(keep):
    first = keep()
    first.wait_until_running()
    second = keep()
    family = first.family
    assert second.family == []
    assert state().keeper == first.process.pid

    first.process.kill()
    second.wait_until_running()

    until(lambda: not any(lives(member) for member in family))
    assert state().keeper == second.process.pid
    second.stop()


def test_a_killed_keeper_with_a_thousand_open_files_takes_its_worker_along_too(keep):
    keeper = keep(OPEN_FILES="1100")
    keeper.wait_until_running()
    family = keeper.family

    keeper.process.kill()

    until(lambda: not any(lives(member) for member in family))


def test_nothing_is_left_when_the_keeper_and_its_worker_are_killed_at_once(keep):
    keeper = keep()
    keeper.wait_until_running()
    family = keeper.family

    keeper.process.send_signal(signal.SIGSTOP)
    family[0].kill()
    keeper.process.kill()

    until(lambda: not any(lives(member) for member in family))


@pytest.mark.parametrize(("grace", "seconds", "finishes"), [("10", 1.5, True), ("0.3", 600, False)])
def test_a_stop_waits_for_a_running_task_a_limited_time(keep, queue, grace, seconds, finishes):
    keeper = keep(MOCHI_SHUTDOWN_GRACE_SECONDS=grace)
    keeper.wait_until_running()
    family = keeper.family
    row = queued("time.sleep", seconds)
    until(lambda: OrmQ.objects.get(pk=row.pk).lock > row.lock)
    time.sleep(0.3)  # from the process that fetched it to the one that runs it

    keeper.stop()

    until(lambda: not any(lives(member) for member in family))
    assert Success.objects.filter(args=(seconds,)).exists() is finishes


def test_a_queue_that_cannot_be_read_is_put_aside(keep, queue):
    STATE_DIR.mkdir(exist_ok=True)
    for entry in STATE_DIR.glob("queue.sqlite3*"):
        entry.unlink()
    DATABASE.write_bytes(b"this is no database" * 100)

    keep().wait_until_running()

    assert OrmQ.objects.count() == 0
    (aside,) = STATE_DIR.glob("queue.sqlite3.broken-*")
    aside.unlink()


def test_nothing_is_queued_before_a_worker_has_made_the_queue(tmp_path):
    queue = DatabaseTaskQueue(tmp_path / "queue.sqlite3")
    assert not queue.add("os.path.basename", "/tmp/never", delay_seconds=0)
    assert list(tmp_path.iterdir()) == []


def test_who_removes_the_lock_gets_another_worker(keep):
    keeper = keep()
    keeper.wait_until_running()
    family = keeper.family

    (STATE_DIR / "worker.lock").unlink()

    until(lambda: not any(lives(member) for member in family))
    keeper.wait_until_running()
    assert state().phase == "running"
    assert psutil.Process(keeper.process.pid).children()
