"""Redis servers of tests: one a test process, in which each test has a prefix of its own."""

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from cluster_app.redis.connection import RedisConnection

PATIENCE_SECONDS = 60.0
REASON = "redis-server is not installed (apt-get install redis-server)"


def require_redis() -> None:
    """Skip a test on a machine without a Redis server; CI has one."""
    if shutil.which("redis-server") is None:
        if os.environ.get("CI"):
            pytest.fail(REASON)
        pytest.skip(REASON)


@contextmanager
def running_redis(*options: str) -> Iterator[str]:
    """Run a Redis server on a socket of its own and yield its URL; options as on its command line.

    ``--port`` has it listen on a port as well.
    """
    require_redis()
    with tempfile.TemporaryDirectory(prefix="redis-") as directory:
        socket = Path(directory) / "socket"
        command = [
            shutil.which("redis-server") or "",
            "--port",
            "0",
            "--unixsocket",
            str(socket),
            "--dir",
            directory,
        ]
        process = subprocess.Popen(
            [*command, "--save", "", *options], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        try:
            wait_for_redis(f"unix://{socket}", process)
            yield f"unix://{socket}"
        finally:
            process.kill()
            process.wait()


def wait_for_redis(url: str, process: "subprocess.Popen[bytes] | None" = None) -> None:
    """Wait until a server answers."""
    end = time.monotonic() + PATIENCE_SECONDS
    with redis.Redis.from_url(url) as client:
        while True:
            try:
                client.ping()
            except redis.ConnectionError:
                assert process is None or process.poll() is None, "redis-server has ended"
                assert time.monotonic() < end, "redis-server does not answer"
                time.sleep(0.01)
            else:
                return


class SharedRedis:
    """The Redis server of a test process, started when it is needed, and again if it was killed."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._url = ""

    def url(self) -> str:
        """Return the URL of a server that answers."""
        if not (self._url and _answers(self._url)):
            self.close()
            self._url = self._running.enter_context(running_redis("--appendonly", "no"))
        return self._url

    def close(self) -> None:
        """End the server."""
        self._running.close()


def _answers(url: str) -> bool:
    with redis.Redis.from_url(url) as client:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[SharedRedis]:
    """Return the Redis server that the tests of this process share."""
    shared = SharedRedis()
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def redis_server(shared_redis: SharedRedis) -> str:
    """Return the URL of a Redis server, which the tests of this process share.

    A machine that is short of something may have killed it since another module used it.
    """
    return shared_redis.url()


@pytest.fixture
def redis_connection(redis_server: str) -> Iterator[RedisConnection]:
    """A connection whose keys no other test has."""
    connection = RedisConnection(
        redis_server,
        prefix=f"test:{secrets.token_hex(6)}:",
        timeout_seconds=PATIENCE_SECONDS,  # a busy machine is not what is tested
    )
    yield connection
    connection.close()
