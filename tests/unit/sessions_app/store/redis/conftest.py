"""Fixtures of the index of sessions."""

import pytest

from sessions_app.store.objects.store import ObjectStore
from sessions_app.store.redis.connection import RedisConnection
from tests.unit.sessions_app.store.redis.processes import Process


@pytest.fixture
def processes(
    redis_connection: RedisConnection, object_store: ObjectStore
) -> tuple[Process, Process]:
    """Return two processes; the index of their sessions is made."""
    one, other = (Process(redis_connection, object_store) for _ in range(2))
    one.index.compare()
    return one, other
