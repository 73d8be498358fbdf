"""Workers of several machines share one queue, and none of it is lost with one of them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

import psutil
import pytest

from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.task_queue import HOLD_SECONDS, count_workers
from tests.functional.durability.conftest import LAST_LINE, Upstream
from tests.functional.processes import MANAGE, start_process
from tests.redis_server import running_redis

pytestmark = pytest.mark.slow

TASK = "chat.tasks.summarize"
SECRETS = {"MOCHI_SECRET_KEY": "0123456789abcdef" * 2}


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
    return found


class Model:
    """Answers people at once; a summary it writes when it is told to."""

    def __init__(self):
        self.asked = threading.Semaphore(0)
        self.go_on = threading.Event()

    def __call__(self, answer):
        if not any("summar" in message["content"].lower() for message in answer.messages):
            answer.say("Hello!")
            answer.finish()
            return
        self.asked.release()
        assert self.go_on.wait(90)
        summary = json.dumps({"summary": "They met.", "topics": ["meeting"]})
        message = {"role": "assistant", "content": summary}
        answer.chunk(json.dumps({"model": "m", "message": message, **LAST_LINE}).encode())
        answer.raw(b"0\r\n\r\n")


@pytest.fixture(scope="module")
def upstream():
    upstream = Upstream()
    yield upstream
    upstream.close()


@pytest.fixture
def model(upstream):
    upstream.behave = model = Model()
    yield model
    model.go_on.set()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The sessions that all nodes have, and what each worker has for itself."""
    return tmp_path_factory.mktemp("nodes")


@pytest.fixture(scope="module")
def redis_server():
    """A server of its own: its keys have no test's prefix."""
    with running_redis("--appendonly", "no") as url:
        yield url


@pytest.fixture(scope="module")
def shared(upstream, redis_server, folder):
    """What the nodes have in common."""
    return {
        "MOCHI_JOURNAL_URL": redis_server,
        "MOCHI_SESSIONS_DIR": str(folder / "sessions"),
        "MOCHI_OLLAMA_HOST": upstream.url,
        "MOCHI_SUMMARIZATION_INTERVAL_SECONDS": "0",
        **SECRETS,
    }


class Worker:
    """A worker on a machine of its own."""

    def __init__(self, data_dir, variables):
        self.data_dir = data_dir
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MOCHI_")}
        self._process = start_process(
            [sys.executable, MANAGE, "qcluster"],
            env={**environment, **variables, "MOCHI_DATA_DIR": str(data_dir)},
            cwd=data_dir,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self):
        if self._process.poll() is not None:
            return
        family = [psutil.Process(self._process.pid)]
        family += family[0].children(recursive=True)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for member in family:
                with suppress(psutil.NoSuchProcess):
                    member.send_signal(number)
        self._process.wait()

    def stop(self):
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)


@pytest.fixture(scope="module")
def server(start_once, shared):
    return start_once(**shared)


@pytest.fixture
def start_worker(shared, folder):
    workers = []

    def begin():
        workers.append(Worker(Path(mkdtemp(prefix="worker-", dir=folder)), shared))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.kill()


@pytest.fixture
def redis(redis_server):
    return RedisConnection(redis_server)


def summary_in(folder, session_id):
    session = json.loads((folder / "sessions" / f"{session_id}.json").read_text())
    return session["metadata"]["summary"]


def test_a_worker_of_another_node_writes_the_summary(chat, start_worker, model, redis, folder):
    model.go_on.set()
    session_id = chat.new_session()
    chat.say(session_id, "Hi!")
    worker = start_worker()

    until(lambda: summary_in(folder, session_id))

    assert chat.http.get("/health").json()["worker_alive"]
    assert count_workers(redis) >= 1  # one that a test before killed may still count
    assert not [*folder.rglob("queue.sqlite3*"), *folder.rglob("secret_key")]
    assert worker.stop() == 0


def test_a_summary_whose_worker_was_killed_is_written_by_another(
    chat, start_worker, model, redis, folder
):
    killed = start_worker()
    session_id = chat.new_session()
    chat.say(session_id, "Hi!")
    assert model.asked.acquire(timeout=90)

    killed.kill()

    held = redis.root_key("held", TASK)
    ends_at = redis.client.zscore(held, session_id)
    assert ends_at <= redis.now().timestamp() + HOLD_SECONDS  # of the 40 that it may take
    model.go_on.set()
    redis.client.zadd(held, {session_id: 0})  # these seconds pass
    start_worker()
    assert until(lambda: summary_in(folder, session_id))["summary"] == "They met."
    until(lambda: redis.client.zscore(held, session_id) is None)


def test_a_task_that_was_lost_with_its_worker_is_found_in_the_sessions(
    chat, start_worker, model, redis, folder
):
    session_id = chat.new_session()
    chat.say(session_id, "Hi!")
    due = redis.root_key("due", TASK)
    until(lambda: redis.client.zrem(due, session_id))  # as if a worker had popped it, and died
    file = folder / "sessions" / f"{session_id}.json"
    session = json.loads(file.read_text())
    session["metadata"]["summary_due"] = "2026-01-01T00:00:00+00:00"
    file.write_text(json.dumps(session, indent=2))
    model.go_on.set()
    redis.client.delete(redis.root_key("looked", TASK))  # it is time to look

    start_worker()

    until(lambda: summary_in(folder, session_id))
