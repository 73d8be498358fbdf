"""Health is asked for every second by many: what is shared is asked for by one of them."""

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest

from cluster_app.connections import Cluster
from cluster_app.objects.store import ObjectExists, ObjectMissing, ObjectStore
from cluster_app.reachability import SharedStores
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.task_queue import note_worker
from mochi_project.reachability import (
    CachedCheck,
    JournalState,
    Reachability,
    Stores,
    SummaryChecks,
)
from sessions_app.errors import StorageError, StorageFull, StorageUnavailable
from tests.object_server import Answer, Meddle, ObjectServer, Request, Serve
from tests.redis_server import running_redis

AWAY = RedisConnection("redis://127.0.0.1:1")


class Shared(Cluster):
    """What is shared, made by a test."""

    def __init__(self, connection: RedisConnection, objects: ObjectStore | None) -> None:
        self.connection = connection
        self.objects = objects


class Store(ObjectStore):
    """An object store that answers as it is told."""

    last_write_failed = False

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def head_bytes(self, key: str, size: int) -> None:  # type: ignore[override]
        if self._error is not None:
            raise self._error


def sharing(connection: RedisConnection, objects: ObjectStore | None = None) -> Stores:
    return SharedStores(Shared(connection, objects))


async def test_many_who_ask_at_once_get_one_answer() -> None:
    asked = 0
    go_on = threading.Event()

    def ask() -> int:
        nonlocal asked
        asked += 1
        assert go_on.wait(30)
        return asked

    question = CachedCheck(ask, 0, fresh_seconds=3600, wait_seconds=30)
    answers = asyncio.gather(*(question.answer() for _ in range(20)))
    await asyncio.sleep(0)
    go_on.set()

    assert await answers == [1] * 20
    assert await question.answer() == 1


async def test_an_answer_that_does_not_come_is_not_asked_for_again_meanwhile() -> None:
    asked = 0
    go_on = threading.Event()

    def ask() -> str:
        nonlocal asked
        asked += 1
        assert go_on.wait(30)
        return "yes"

    question = CachedCheck(ask, "no", fresh_seconds=0, wait_seconds=0.001)
    for _ in range(5):
        assert await question.answer() == "no"
    assert asked == 1

    go_on.set()
    while await question.answer() == "no":
        pass


async def test_files_are_not_asked_for() -> None:
    stores = Stores()

    assert await stores.journal() == JournalState("files")
    assert await stores.sessions() == "files"
    await stores.require()


async def test_a_journal_that_answers_says_who_works(redis_connection: RedisConnection) -> None:
    await asyncio.to_thread(lambda: note_worker(redis_connection)("one"))
    stores = sharing(redis_connection)

    assert await stores.journal() == JournalState("ok", workers=1)
    await stores.require()


async def test_who_can_not_reach_the_journal_takes_no_requests() -> None:
    stores = sharing(AWAY)

    assert await stores.journal() == JournalState("unreachable")
    with pytest.raises(StorageUnavailable, match="MOCHI_JOURNAL_URL"):
        await stores.require()


@pytest.mark.parametrize("error", [None, ObjectMissing("is-it-there")])
async def test_a_store_that_answers_can_be_reached(error: Exception | None) -> None:
    stores = sharing(AWAY, Store(error))

    assert await stores.sessions() == "ok"


async def test_who_can_not_reach_the_store_takes_no_requests(
    redis_connection: RedisConnection,
) -> None:
    stores = sharing(redis_connection, Store(StorageUnavailable("no answer")))

    assert await stores.sessions() == "unreachable"
    with pytest.raises(StorageUnavailable, match="MOCHI_SESSIONS_URL"):
        await stores.require()


REFUSALS = [
    pytest.param(("replicaof", "127.0.0.1", "1"), "unwritable", id="a read-only replica"),
    pytest.param(("config", "set", "min-replicas-to-write", "1"), "unwritable", id="alone"),
    pytest.param(("config", "set", "maxmemory", "1"), "full", id="full"),
]


@pytest.fixture
def own_redis() -> Iterator[RedisConnection]:
    with running_redis() as url:
        connection = RedisConnection(url)
        connection.client.ping()
        yield connection
        connection.close()


@pytest.mark.parametrize(("command", "state"), REFUSALS)
async def test_who_can_not_write_to_the_journal_takes_no_requests(
    own_redis: RedisConnection, command: Sequence[str], state: Reachability
) -> None:
    await asyncio.to_thread(own_redis.client.execute_command, *command)
    stores = sharing(own_redis)

    assert await stores.journal() == JournalState(state)
    with pytest.raises(StorageFull if state == "full" else StorageUnavailable):
        await stores.require()


def refusing(status: str, written: list[str]) -> Meddle:
    """Return what makes a store refuse writes, and notes which."""

    def refuse(request: Request, serve: Serve) -> Answer:
        if request.method != "PUT":
            return serve()
        written.append(request.path)
        return Answer(status, [("Content-Length", "0")], b"")

    return refuse


@pytest.mark.parametrize(
    ("status", "state"),
    [("403 Forbidden", "unwritable"), ("503 Slow Down", "unwritable"), ("507 Full", "full")],
)
async def test_who_can_not_write_to_the_store_takes_no_requests(
    redis_connection: RedisConnection,
    object_store: ObjectStore,
    object_server: ObjectServer,
    status: str,
    state: str,
) -> None:
    refused: list[str] = []
    with object_server.meddled(refusing(status, refused)):
        assert await sharing(redis_connection, object_store).sessions() == "ok"
        assert refused == []  # nothing is written to find out
        with pytest.raises(StorageError):
            await asyncio.to_thread(object_store.under("below").put, "a", b"1")
        stores = sharing(redis_connection, object_store)
        assert await stores.sessions() == state
        with pytest.raises(StorageFull if state == "full" else StorageUnavailable):
            await stores.require()
        assert len(refused) == 2  # many who ask get one answer

    assert await sharing(redis_connection, object_store).sessions() == "ok"
    object_server.forget_requests()
    assert await sharing(redis_connection, object_store).sessions() == "ok"
    assert [request.method for request in object_server.requests] == ["GET"]


async def test_a_write_that_is_refused_for_its_condition_is_no_failure(
    redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    await asyncio.to_thread(object_store.put_new, "a", b"1")
    with pytest.raises(ObjectExists):
        await asyncio.to_thread(object_store.put_new, "a", b"2")

    assert not object_store.last_write_failed


async def test_failures_are_counted_and_not_known_where_they_can_not_be_read() -> None:
    def fail() -> list[object]:
        raise StorageUnavailable("no answer")

    assert await SummaryChecks(lambda: ["one", "two"]).failures() == 2
    assert await SummaryChecks(fail).failures() == 0


async def test_the_age_of_the_queue_is_not_known_where_it_can_not_be_read() -> None:
    def fail() -> float:
        raise StorageUnavailable("no answer")

    assert await SummaryChecks(list, lambda: 7.0).queue_age() == 7.0
    assert await SummaryChecks(list, fail).queue_age() is None
