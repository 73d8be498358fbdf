"""Hints at claims outlive the process that leaves them, and an outage of Redis."""

import pytest

from cluster_app.objects.claim_hints import ClaimHint
from cluster_app.redis.claim_hints import RedisClaimHints
from cluster_app.redis.connection import RedisConnection
from sessions_app.errors import StorageUnavailable
from tests.redis_server import running_redis

FIRST = ClaimHint("a1b2c3d4e5", "turn-1", "owner-1", "2026-11-21T10:00:00.000000+00:00")


def test_what_one_process_notes_another_one_finds(redis_connection: RedisConnection) -> None:
    mine, other = RedisClaimHints(redis_connection), RedisClaimHints(redis_connection)
    mine.note(FIRST)
    assert other.all() == [FIRST]
    other.clear(FIRST.session_id, FIRST.turn_id)
    assert mine.all() == []


def test_two_turns_that_want_one_session_take_back_their_own(
    redis_connection: RedisConnection,
) -> None:
    hints = RedisClaimHints(redis_connection)
    second = FIRST._replace(turn_id="turn-2", owner="owner-2")
    hints.note(FIRST)
    hints.note(second)
    hints.clear(second.session_id, second.turn_id)
    assert hints.all() == [FIRST]


def test_each_storage_has_its_own(redis_connection: RedisConnection) -> None:
    RedisClaimHints(redis_connection.under("a:")).note(FIRST)
    assert RedisClaimHints(redis_connection).all() == []


def test_a_hint_that_makes_no_sense_is_none(redis_connection: RedisConnection) -> None:
    redis_connection.client.hset(redis_connection.key("claimed"), "x", "y")
    assert RedisClaimHints(redis_connection).all() == []


def test_what_could_not_be_taken_back_is_taken_back_later() -> None:
    with running_redis() as url:
        connection = RedisConnection(url)
        hints = RedisClaimHints(connection)
        hints.note(FIRST)
        connection.client.config_set("min-replicas-to-write", 1)
        hints.clear(FIRST.session_id, FIRST.turn_id)
        with pytest.raises(StorageUnavailable):
            hints.note(FIRST)
        with pytest.raises(StorageUnavailable):
            hints.all()
        connection.client.config_set("min-replicas-to-write", 0)
        assert hints.all() == []
        connection.close()
