"""The time of Redis, whatever the machine's own clock says."""

from datetime import UTC, datetime

import pytest

from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore
from chat.errors import ConfirmationExpired
from cluster_app.redis.clock import RedisClock
from cluster_app.redis.records import RedisRecords
from tests.unit.chat.approvals.questions import CALL, MESSAGE, SESSION, approve


class FakeTime:
    """A Redis whose clock a test sets; everything that a clock needs of a connection."""

    def __init__(self):
        self.now = datetime(2026, 11, 21, 10, 0, 0, 250_000, tzinfo=UTC)
        self.client = self

    def translated(self):
        return self

    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None

    def time(self):
        return int(self.now.timestamp()), self.now.microsecond


def test_the_time_is_that_of_redis():
    redis = FakeTime()
    clock = RedisClock(redis)
    assert clock() == redis.now
    redis.now = redis.now.replace(hour=11)
    assert clock() == redis.now


def test_a_real_redis_tells_a_time_with_its_zone_and_does_not_go_back(redis_connection):
    clocks = [RedisClock(redis_connection) for _ in range(2)]
    times = [clocks[number % 2]() for number in range(10)]
    assert {moment.tzinfo for moment in times} == {UTC}
    assert times == sorted(times)


def test_a_question_is_open_for_other_machines_at_once(redis_connection):
    records = RedisRecords(redis_connection, "conf", names=CONFIRMATION_RECORDS, seconds=60)
    nodes = [
        ConfirmationStore(records, timeout_seconds=60, now=RedisClock(redis_connection))
        for _ in range(2)
    ]
    call = {"session_id": SESSION, "message_id": MESSAGE, "call": CALL, "call_index": 0}
    question = nodes[0].ask(**call, turn_id="turn_1")
    assert nodes[1].pending(SESSION) == [question]
    approve(nodes[1], question)
    assert nodes[0].find_decided(SESSION, MESSAGE, CALL).approved


def test_the_time_of_redis_closes_a_question(redis_connection):
    redis = FakeTime()
    records = RedisRecords(redis_connection, "conf", names=CONFIRMATION_RECORDS, seconds=600)
    store = ConfirmationStore(records, timeout_seconds=60, now=RedisClock(redis))
    call = {"session_id": SESSION, "message_id": MESSAGE, "call": CALL, "call_index": 0}
    question = store.ask(**call, turn_id="turn_1")
    redis.now = redis.now.replace(minute=1)
    assert store.pending(SESSION) == []
    with pytest.raises(ConfirmationExpired):
        approve(store, question)
