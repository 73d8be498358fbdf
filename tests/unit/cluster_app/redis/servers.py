"""A Redis server of one test, which it may kill, freeze and start again."""

import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil

from tests.redis_server import require_redis, wait_for_redis


class Server:
    """Runs redis-server on a port, or on a socket alone, and in a directory of its own."""

    def __init__(self, directory: Path, *options: str, port: int | None = None) -> None:
        require_redis()
        self.port = _free_port() if port is None else port
        socket_path = directory / "redis"
        place = [
            "--port",
            str(self.port),
            "--unixsocket",
            str(socket_path),
            "--dir",
            str(directory),
        ]
        self.url = f"redis://127.0.0.1:{self.port}/0" if self.port else f"unix://{socket_path}"
        self._command = ["redis-server", "--bind", "127.0.0.1", *place, "--save", "", *options]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        wait_for_redis(self.url, self._process)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        while psutil.Process(self._process.pid).status() != psutil.STATUS_STOPPED:
            time.sleep(0.001)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.thaw()
        self.kill()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
