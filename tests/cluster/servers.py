"""The two servers that nodes share, as processes that a test may kill, freeze and start again."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import redis

BUCKET = "mochi-tests"
STORE = Path(__file__).with_name("store_process.py")
START_SECONDS = 60
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing-too"}


class RedisServer:
    """A Redis that keeps what it was told each second, behind a socket in a directory of its own.

    Args:
        directory: An empty directory.
        options: What else its command line says.

    Attributes:
        address: Where it listens. A path, which nobody else can have taken when it starts again.
    """

    def __init__(self, directory: Path, *options: str) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._options = options
        self.address = str(directory / "socket")
        self.start()

    def start(self) -> None:
        """Start it with what it had, and wait until it answers."""
        with (self._directory / "log").open("a") as log:
            self.process = subprocess.Popen(
                [
                    *(shutil.which("redis-server") or "redis-server", "--port", "0"),
                    *("--unixsocket", self.address, "--dir", str(self._directory)),
                    *("--save", "", "--appendonly", "yes", "--appendfsync", "everysec"),
                    *("--maxmemory-policy", "noeviction", *self._options),
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with self.client() as client:
                    client.ping()
            except redis.ConnectionError:  # not there, or reading what it had
                assert self.process.poll() is None, (self._directory / "log").read_text()
                assert time.monotonic() < deadline, (self._directory / "log").read_text()
                time.sleep(0.01)
            else:
                return

    def client(self) -> "redis.Redis":
        """Return a connection that no relay is on."""
        return redis.Redis(unix_socket_path=self.address, decode_responses=True)

    def freeze(self) -> None:
        """Let it stand still."""
        psutil.Process(self.process.pid).suspend()

    def thaw(self) -> None:
        """Let it go on."""
        psutil.Process(self.process.pid).resume()

    def kill(self) -> None:
        """Kill it; what it has on the disk stays."""
        self.process.kill()
        self.process.wait(timeout=START_SECONDS)


class StoreServer:
    """An S3 with one bucket.

    Attributes:
        port: Where it listens.
        url: The same, with its host.
    """

    def __init__(self, *flags: str, host: str = "127.0.0.1") -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(STORE), host, *flags],
            env={**os.environ, **KEYS},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.port = int(self.process.stdout.readline())
        self.url = f"http://{host}:{self.port}"
        httpx.put(f"{self.url}/{BUCKET}", timeout=60, trust_env=False).raise_for_status()

    def kill(self) -> None:
        """Kill it, and what it has."""
        self.process.kill()
        self.process.wait(timeout=START_SECONDS)
        assert self.process.stdout
        self.process.stdout.close()
