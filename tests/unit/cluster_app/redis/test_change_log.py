"""The log of changes in Redis, which may be away, and forgets a log that nobody listens to."""

from contextlib import contextmanager

import pytest

from cluster_app.redis import change_log as change_log_module
from cluster_app.redis.change_log import LISTENED_MS, RedisChangeLog
from cluster_app.redis.hub import Hub
from sessions_app.errors import StorageUnavailable

SESSION = "a1b2c3d4e5"


class Connection:
    """A connection to a Redis that may be away; it counts what it is asked."""

    def __init__(self, inner):
        self._inner = inner
        self.away = False
        self.asked = 0

    def __getattr__(self, name):
        return getattr(self._inner, name)

    @contextmanager
    def translated(self):
        self.asked += 1
        if self.away:
            raise StorageUnavailable("away")
        with self._inner.translated():
            yield

    def run(self, lua, *keys, args):
        with self.translated():
            return self._inner.run(lua, *keys, args=args)


@pytest.fixture
def connection(redis_connection):
    return Connection(redis_connection)


@pytest.fixture
def log(connection, redis_connection):
    return RedisChangeLog(connection, Hub(redis_connection))


def test_redis_forgets_a_log_that_nobody_listens_to(log, connection):
    log.note("created", SESSION)
    key = connection.key("changes")
    assert connection.client.exists(key) == 0
    log.open()
    log.note("created", SESSION)
    assert 0 < connection.client.pttl(key) <= LISTENED_MS


def test_a_change_does_not_fail_because_redis_is_away_nor_wait_again(log, connection, monkeypatch):
    monkeypatch.setattr(change_log_module, "RETRY_SECONDS", 3600.0)
    log.open()
    connection.away = True
    log.note("created", SESSION)
    asked = connection.asked
    log.note("changed", SESSION)
    log.sweep()
    assert connection.asked == asked


def test_who_listens_begins_anew_after_changes_that_could_not_be_noted(
    log, connection, monkeypatch
):
    monkeypatch.setattr(change_log_module, "RETRY_SECONDS", 0.0)
    start = log.open()
    connection.away = True
    log.note("created", SESSION)
    log.sweep()
    connection.away = False
    assert log.read(start, 10) == []
    log.sweep()
    assert log.read(start, 10) is None
    fresh = log.open()
    log.note("deleted", SESSION)
    assert [change.kind for change in log.read(fresh, 10)] == ["deleted"]
