"""Redis servers that a test may break, and processes that share an index of sessions."""

import secrets
import tempfile
from pathlib import Path

import pytest

from cluster_app.objects.store import ObjectStore
from cluster_app.redis import pump
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.hub import Hub
from cluster_app.redis.journals import RedisTurnJournal
from tests.cluster.relay import Relay
from tests.contract.elsewhere import PidOwners
from tests.unit.cluster_app.redis.losing import LosingConnection
from tests.unit.cluster_app.redis.processes import Process
from tests.unit.cluster_app.redis.servers import Server


@pytest.fixture
def quick(monkeypatch):
    """Have the pump look at the time, and connect again, more often."""
    monkeypatch.setattr(pump, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(pump, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(pump, "LONGEST_PAUSE_SECONDS", 0.05)


@pytest.fixture
def own_server():
    with tempfile.TemporaryDirectory(prefix="redis-") as directory:
        server = Server(Path(directory))
        yield server
        server.stop()


@pytest.fixture
def killed_server():
    """A server that may be killed; while it is away, nobody else can take its place."""
    with tempfile.TemporaryDirectory(prefix="redis-") as directory:
        server = Server(Path(directory), "--appendonly", "yes", port=0)
        yield server
        server.stop()


@pytest.fixture
def relay(own_server):
    made = Relay(("127.0.0.1", own_server.port))
    yield made
    made.close()


@pytest.fixture
async def make_journal(quick):
    """Makes journals at a URL; what they have open is closed with the test."""
    made = []

    def make(url, *, prefix=None, timeout_seconds=60.0):
        connection = RedisConnection(url, prefix=prefix or f"test:{secrets.token_hex(4)}:")
        made.append(
            RedisTurnJournal(
                connection,
                owners=PidOwners(),
                hub=Hub(connection),
                retention_seconds=3600,
                timeout_seconds=timeout_seconds,
            )
        )
        return made[-1]

    yield make
    for journal in made:
        journal.close()


@pytest.fixture
def processes(
    redis_connection: RedisConnection, object_store: ObjectStore
) -> tuple[Process, Process]:
    """Return two processes; the index of their sessions is made."""
    one, other = (Process(redis_connection, object_store) for _ in range(2))
    one.index.compare()
    return one, other


@pytest.fixture
def connection(redis_connection: RedisConnection) -> LosingConnection:
    """Return a connection that can be lost in the middle of a command."""
    return LosingConnection(redis_connection)
