"""Journals on Redis servers that a test may break."""

import secrets
import tempfile
from pathlib import Path

import pytest

from chat.storage.redis import pump
from chat.storage.redis.hub import Hub
from chat.storage.redis.journals import RedisTurnJournal
from sessions_app.store.redis.connection import RedisConnection
from tests.cluster.relay import Relay
from tests.contract.elsewhere import PidOwners
from tests.unit.chat.storage.redis.servers import Server


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
