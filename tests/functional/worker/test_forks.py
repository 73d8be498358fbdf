"""No process uses the connections of the one that it was forked from, or shares its own."""

import socket
import time
from collections import Counter
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest

from tests.redis_server import running_redis

pytestmark = pytest.mark.slow


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
    return found


@pytest.fixture
def redis_port():
    """The port of a Redis server: of its connections both ends are to be seen."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with running_redis("--appendonly", "no", "--port", str(port)):
        yield port


@pytest.fixture
def shared(redis_port, object_url, tmp_path):
    return {
        "MOCHI_JOURNAL_URL": f"redis://127.0.0.1:{redis_port}/0",
        "MOCHI_SESSIONS_URL": object_url,
        "MOCHI_SESSIONS_DIR": str(tmp_path / "sessions"),
        "MOCHI_SECRET_KEY": "0123456789abcdef" * 2,
        "MOCHI_SUMMARIZATION_INTERVAL_SECONDS": "0",
    }


def ends_at(port, processes):
    """Return our ends of connections to a port, each once for every process that has it open."""
    ends = Counter()
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # it had ended before
            for connection in process.net_connections(kind="tcp"):
                if connection.raddr and connection.raddr.port == port:
                    ends[connection.laddr] += 1
    return ends


def family_of(pid):
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def test_processes_of_a_worker_and_of_a_server_share_no_connection(
    start, shared, redis_port, object_url
):
    server = start("--workers", "2", MOCHI_BACKGROUND_WORKER="true", **shared)
    chat = server.chat()
    session_id = chat.new_session()
    chat.say(session_id, "Hi!")
    until(lambda: chat.http.get(f"/sessions/{session_id}/summary").status_code == 200)

    health = chat.http.get("/health").json()
    assert (health["journal"], health["sessions"], health["worker_alive"]) == ("ok", "ok", True)

    family = family_of(server.process.pid)
    # Of two web processes, of the one that watches a worker, that pops its tasks, and runs them:
    until(lambda: len(ends_at(redis_port, family)) >= 5)
    to_redis = ends_at(redis_port, family)
    store_port = urlsplit(parse_qs(urlsplit(object_url).query)["endpoint"][0]).port
    to_store = ends_at(store_port, family)

    assert set(to_redis.values()) == {1}
    assert set(to_store.values()) <= {1}
