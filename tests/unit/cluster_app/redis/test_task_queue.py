"""The queue of several machines: nothing before its time, nothing twice, nothing lost for long."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django_q.signing import SignedPackage

from cluster_app.redis import broker as redis_broker
from cluster_app.redis.broker import RedisBroker
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.task_queue import (
    HOLD_SECONDS,
    RedisTaskQueue,
    SharedQueueChores,
    count_workers,
    list_key,
    note_worker,
)
from sessions_app.errors import StorageUnavailable

TASK = "os.path.basename"


@pytest.fixture
def queue(redis_connection: RedisConnection) -> RedisTaskQueue:
    return RedisTaskQueue(redis_connection)


def pass_time(connection: RedisConnection, name: str, seconds: float) -> None:
    """Make what is in a sorted set of times that much older."""
    for member, at in connection.client.zrange(name, 0, -1, withscores=True):
        connection.client.zadd(name, {member: at - seconds})


def queued(connection: RedisConnection) -> list[tuple[str, tuple[str, ...]]]:
    """Return the calls that wait for a worker."""
    tasks = connection.client.lrange(list_key(connection), 0, -1)
    calls = [SignedPackage.loads(task.decode()) for task in tasks]
    return [(call["func"], call["args"]) for call in calls]


def test_a_call_waits_until_it_is_due(
    queue: RedisTaskQueue, redis_connection: RedisConnection
) -> None:
    assert queue.add(TASK, "later", "too", delay_seconds=60)
    assert queue.add(TASK, "now", delay_seconds=0)

    assert queue.queue_due(TASK) == 1
    assert queue.queue_due(TASK) == 0
    assert queued(redis_connection) == [(TASK, ("now",))]

    pass_time(redis_connection, redis_connection.root_key("due", TASK), 60)
    assert queue.queue_due(TASK) == 2
    assert queued(redis_connection)[1:] == [(TASK, ("later",)), (TASK, ("too",))]


def test_a_call_that_is_added_again_waits_once_and_from_then_on(
    queue: RedisTaskQueue, redis_connection: RedisConnection
) -> None:
    queue.add(TASK, "one", delay_seconds=0)
    queue.add(TASK, "one", delay_seconds=60)

    assert queue.queue_due(TASK) == 0
    pass_time(redis_connection, redis_connection.root_key("due", TASK), 60)
    assert queue.queue_due(TASK) == 1


def test_each_call_is_queued_by_one_of_many_keepers(
    queue: RedisTaskQueue, redis_connection: RedisConnection
) -> None:
    names = [f"call-{number}" for number in range(30)]
    queue.add(TASK, *names, delay_seconds=0)

    with ThreadPoolExecutor(4) as keepers:
        moved = list(
            keepers.map(lambda _: RedisTaskQueue(redis_connection).queue_due(TASK), "abcd")
        )

    assert sum(moved) == len(names)
    assert sorted(queued(redis_connection)) == sorted((TASK, (name,)) for name in names)


def test_a_call_that_runs_is_held_by_one_worker(queue: RedisTaskQueue) -> None:
    assert queue.hold(TASK, "one")
    assert not queue.hold(TASK, "one")
    assert queue.hold(TASK, "another")

    queue.release(TASK, "one")

    assert queue.hold(TASK, "one")


def test_a_call_whose_worker_died_is_queued_again(
    queue: RedisTaskQueue, redis_connection: RedisConnection
) -> None:
    assert queue.hold(TASK, "one")
    held = redis_connection.root_key("held", TASK)
    pass_time(redis_connection, held, HOLD_SECONDS / 2)
    assert queue.queue_due(TASK) == 0
    queue.renew(TASK, "one")
    pass_time(redis_connection, held, HOLD_SECONDS / 2)
    assert queue.queue_due(TASK) == 0

    pass_time(redis_connection, held, HOLD_SECONDS / 2)

    assert queue.queue_due(TASK) == 1
    assert queued(redis_connection) == [(TASK, ("one",))]
    assert queue.hold(TASK, "one")


def test_a_hold_that_is_over_is_not_renewed_into_being(
    queue: RedisTaskQueue, redis_connection: RedisConnection
) -> None:
    queue.renew(TASK, "one")

    assert not redis_connection.client.exists(redis_connection.root_key("held", TASK))


def test_one_keeper_looks_for_lost_calls_in_a_while(
    queue: RedisTaskQueue, redis_connection: RedisConnection
) -> None:
    looked: list[str] = []
    chores = [
        SharedQueueChores(queue, TASK, lambda name=name: looked.append(name)) for name in "ab"
    ]

    for _ in range(2):
        for chore in chores:
            chore(worker_is_new=True)
    assert looked == ["a"]

    redis_connection.client.delete(redis_connection.root_key("looked", TASK))
    chores[1](worker_is_new=False)
    assert looked == ["a", "b"]


def test_a_new_worker_empties_no_shared_queue(
    queue: RedisTaskQueue, redis_connection: RedisConnection
) -> None:
    queue.add(TASK, "one", delay_seconds=0)
    queue.queue_due(TASK)

    SharedQueueChores(queue, TASK, lambda: None)(worker_is_new=True)

    assert len(queued(redis_connection)) == 1


def test_a_worker_pops_what_was_queued_and_is_counted(
    queue: RedisTaskQueue, redis_connection: RedisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RedisBroker, "get_connection", lambda *_: redis_connection)
    broker = RedisBroker()
    queue.add(TASK, "one", delay_seconds=0)
    queue.queue_due(TASK)
    assert (broker.ping(), broker.queue_size()) == (True, 1)

    [(_, task)] = broker.dequeue() or []

    assert SignedPackage.loads(task)["args"] == ("one",)
    assert broker.queue_size() == 0
    assert count_workers(redis_connection) == 0
    broker.set_stat("django_q:mochi:cluster:one", "signed", 3)
    note_worker(redis_connection)("two")
    assert count_workers(redis_connection) == 2
    pass_time(redis_connection, redis_connection.root_key("workers"), 60)
    assert count_workers(redis_connection) == 0


def test_a_queue_that_is_away_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    away = RedisConnection("redis://127.0.0.1:1")
    queue = RedisTaskQueue(away)
    chores = SharedQueueChores(queue, TASK, lambda: None)

    assert not queue.add(TASK, "one", delay_seconds=0)
    with pytest.raises(StorageUnavailable):
        queue.hold(TASK, "one")
    for _ in range(3):
        chores(worker_is_new=False)

    assert caplog.text.count("the queue of tasks can't be used") == 1


def test_a_worker_whose_queue_is_away_is_told_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = RedisConnection("redis://127.0.0.1:1")
    monkeypatch.setattr(RedisBroker, "get_connection", lambda *_: away)
    broker = RedisBroker()

    monkeypatch.setattr(redis_broker, "AWAY_SECONDS", 0)

    for _ in range(3):
        broker.set_stat("django_q:mochi:cluster:one", "signed", 3)
        assert broker.dequeue() is None

    assert caplog.text.count("the queue can't be reached") == 1
