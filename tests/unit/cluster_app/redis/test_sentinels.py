"""A primary that Sentinels know by name, and another one in its place once it was killed."""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.leases import LeaseOwners
from sessions_app.errors import StorageUnavailable
from tests.redis_server import require_redis

NAME = "mochi-main"
PASSWORD = "pass word"
PATIENCE_SECONDS = 110
LEASE = 600.0


class Node:
    """A server or a Sentinel on a port of its own."""

    def __init__(self, directory: Path, *options: str, sentinel: str = "") -> None:
        directory.mkdir()
        program = shutil.which("redis-server") or ""
        for _ in range(10):  # somebody else may get the port first
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = int(free.getsockname()[1])
            configuration = directory / "redis.conf"
            configuration.write_text(
                f"port {self.port}\nbind 127.0.0.1\ndir {directory}\nprotected-mode no\n{sentinel}"
            )
            kind = ["--sentinel"] if sentinel else ["--save", "", *options]
            with (directory / "log").open("a") as log:
                self.process = subprocess.Popen(
                    [program, str(configuration), *kind],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            password = None if sentinel else PASSWORD
            self.client = redis.Redis(port=self.port, password=password, decode_responses=True)
            if self._is_up():
                return
        pytest.fail((directory / "log").read_text())

    def _is_up(self) -> bool:
        while self.process.poll() is None:
            try:
                if self.client.info("server")["process_id"] == self.process.pid:
                    return True
            except redis.ConnectionError:
                time.sleep(0.01)
        return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def _knows_a_replica(sentinel: Node) -> bool:
    """Return whether it has asked the replica how it is, without which it would not take it."""
    return [each["master-link-status"] for each in sentinel.client.sentinel_slaves(NAME)] == ["ok"]


@contextmanager
def running(directory: Path) -> Iterator[tuple[Node, Node, Node]]:
    """Run a primary, its replica and a Sentinel that knows both."""
    secured = ("--requirepass", PASSWORD, "--masterauth", PASSWORD)
    secured += ("--repl-diskless-sync-delay", "0")
    with ExitStack() as stack:
        primary = Node(directory / "primary", *secured)
        stack.callback(primary.kill)
        replica = Node(directory / "replica", *secured, "--replicaof", f"127.0.0.1 {primary.port}")
        stack.callback(replica.kill)
        wait_for(lambda: replica.client.info("replication")["master_link_status"] == "up")
        sentinel = Node(
            directory / "sentinel",
            sentinel=f"sentinel monitor {NAME} 127.0.0.1 {primary.port} 1\n"
            f'sentinel auth-pass {NAME} "{PASSWORD}"\n'
            f"sentinel down-after-milliseconds {NAME} 500\n"
            f"sentinel failover-timeout {NAME} 10000\n",
        )
        stack.callback(sentinel.kill)
        wait_for(lambda: _knows_a_replica(sentinel))
        yield primary, replica, sentinel


@pytest.mark.timeout(240)
def test_another_primary_is_found_and_condemns_nobody(tmp_path: Path) -> None:
    require_redis()
    with running(tmp_path) as (primary, replica, sentinel), socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        sentinels = f"127.0.0.1:{nobody.getsockname()[1]},127.0.0.1:{sentinel.port}"
        url = f"redis+sentinel://:{PASSWORD.replace(' ', '%20')}@{sentinels}/{NAME}/0"
        connection = RedisConnection(url, timeout_seconds=20)
        assert connection.address().hosts == (("127.0.0.1", primary.port),)
        one, other = (LeaseOwners(connection, LEASE, in_background=False) for _ in range(2))
        mine, theirs = one.mine(), other.mine()
        key = connection.root_key("w", mine)
        connection.client.set(key, "1", keepttl=True)  # it has had its lease for long
        wait_for(lambda: replica.client.get(key) == "1")

        primary.kill()
        assert one.lives(theirs)
        wait_for(lambda: _is_taken(one))

        assert connection.address().hosts == (("127.0.0.1", replica.port),)
        assert replica.client.info("replication")["role"] == "master"
        assert one.mine() == mine
        replica.client.delete(connection.root_key("w", theirs))
        assert one.lives(theirs)  # whose beat may come late
        connection.close()


def _is_taken(owners: LeaseOwners) -> bool:
    try:
        owners.beat()
    except StorageUnavailable:
        return False
    return True


def test_a_sentinel_that_does_not_answer_is_asked_once() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.setblocking(False)
        connection = RedisConnection(
            f"redis+sentinel://:secret@127.0.0.1:{silent.getsockname()[1]}/{NAME}",
            timeout_seconds=0.1,
        )
        with pytest.raises(StorageUnavailable) as caught:
            connection.address()
        silent.accept()[0].close()
        with pytest.raises(StorageUnavailable), connection.translated():
            connection.client.get("x")
        silent.accept()[0].close()

        with pytest.raises(BlockingIOError):
            silent.accept()
    assert "secret" not in str(caught.value)
    connection.close()
