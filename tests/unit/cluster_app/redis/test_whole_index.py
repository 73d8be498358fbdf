"""The index of sessions is made again when it is missing, and doubted when it may be wrong."""

import threading

import pytest

from cluster_app.objects.store import ObjectStore
from cluster_app.redis import index_entries
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.session_index import IndexTimes
from sessions_app.errors import StorageUnavailable
from tests.object_server import Answer, ObjectServer, Request, Serve
from tests.redis_server import running_redis
from tests.unit.cluster_app.redis.processes import (
    AT_ONCE,
    Link,
    Process,
    claim_on,
    forget_everything,
    heads_read,
    lists_read,
    lost,
    session,
    shown,
    start_over,
    wait_until,
)


def test_an_index_that_is_missing_is_made_from_the_objects(
    redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    process = Process(redis_connection, object_store, AT_ONCE)
    written = [session(number, second=number) for number in range(3)]
    for each in written:
        process.put(each)
    object_store.put("0000000009.json", b"")
    object_store.put("notes.txt", b"not ours")
    listing = process.index.listing()
    assert shown(*reversed(written)) == process.listed()
    assert [(item.file, item.reason) for item in listing.unreadable] == [
        ("0000000009.json", "empty")
    ]
    assert listing.complete


def test_lists_are_served_with_what_is_known_while_the_index_is_made(
    redis_connection: RedisConnection, object_store: ObjectStore, object_server: ObjectServer
) -> None:
    impatient = IndexTimes(wait_seconds=0)
    process = Process(redis_connection, object_store, impatient)
    process.put(session(1))
    may_go_on = threading.Event()

    def hold(_request: Request, serve: Serve) -> Answer:
        may_go_on.wait(60)
        return serve()

    with object_server.meddled(hold):
        assert process.index.listing().complete is False
        process.index.writing(session(2).session_id)
        told = process.index.writing(session(3).session_id)
        process.index.wrote(session(3).session_id, told, etag="tag", metadata=session(3).metadata)
        listing = process.index.listing()
        assert [each.session_id for each in listing.sessions] == [session(3).session_id]
        assert listing.complete is False
        may_go_on.set()
        process.put(session(3))
        process.index.compare()
    assert process.index.listing().complete
    assert sorted(process.listed()) == shown(session(1), session(3))


def test_one_process_makes_the_index_for_all(
    redis_connection: RedisConnection, object_store: ObjectStore, object_server: ObjectServer
) -> None:
    impatient = IndexTimes(wait_seconds=0)
    processes = [Process(redis_connection, object_store, impatient) for _ in range(3)]
    may_go_on, is_asked = threading.Event(), threading.Event()

    def hold(_request: Request, serve: Serve) -> Answer:
        is_asked.set()
        may_go_on.wait(60)
        return serve()

    with object_server.meddled(hold):
        processes[0].index.listing()
        assert is_asked.wait(60)
        for process in processes:
            assert process.index.listing().complete is False
        may_go_on.set()
        processes[1].index.compare()
    assert lists_read(object_server) == 2
    assert all(process.index.listing().complete for process in processes)


def test_what_redis_forgot_is_still_listed_and_found_again(
    redis_connection: RedisConnection, object_store: ObjectStore, object_server: ObjectServer
) -> None:
    one = Process(redis_connection, object_store, IndexTimes(dirty_ms=0, wait_seconds=0))
    one.index.compare()
    for number in range(3):
        one.write(session(number, second=number))
    known = one.listed()
    forget_everything(redis_connection)
    may_go_on = threading.Event()

    def hold(_request: Request, serve: Serve) -> Answer:
        may_go_on.wait(60)
        return serve()

    with object_server.meddled(hold):
        listing = one.index.listing()
        assert one.listed() == known
        assert listing.complete is False
        may_go_on.set()
        one.index.compare()
    assert one.listed() == known
    assert one.index.listing().complete
    assert Process(redis_connection, object_store).listed() == known


def test_a_session_that_went_while_redis_forgot_is_listed_no_more(
    redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    one = Process(redis_connection, object_store)
    one.index.compare()
    one.write(session(1))
    one.write(session(2))
    one.listed()
    forget_everything(redis_connection)
    object_store.delete(f"{session(1).session_id}.json")
    one.index.compare()
    assert one.listed() == shown(session(2))


@pytest.mark.parametrize("is_written_first", [False, True])
def test_what_a_failover_lost_is_found_again(
    processes: tuple[Process, Process], redis_connection: RedisConnection, is_written_first: bool
) -> None:
    one, other = processes
    one.write(session(1, "first", 1))
    with lost(redis_connection):
        one.write(session(1, "second", 2))
        one.write(session(2, second=3))
        other.listed()
    expected = shown(session(2, second=3), session(1, "second", 2))
    if is_written_first:
        one.write(session(3, second=4))
        expected = [*shown(session(3, second=4)), *expected]
    wait_until(lambda: one.listed() == other.listed() == expected)


def test_a_full_log_that_was_trimmed_has_lost_nothing(
    processes: tuple[Process, Process],
    redis_connection: RedisConnection,
    object_server: ObjectServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = processes
    monkeypatch.setattr(index_entries, "LOGGED", 2)
    for number in range(3):
        one.write(session(number, second=number))
    place = one.entries.place()
    for number in range(3, 6):
        one.write(session(number, second=number))
    redis_connection.client.xtrim(one.entries.key("log"), maxlen=2, approximate=False)
    look = other.entries.look(place, due_after_ms=10_000)
    assert (look.is_continued, look.is_lost) == (False, False)
    assert other.index.listing().complete
    assert lists_read(object_server) == 1


def test_what_a_failover_lost_is_found_although_nobody_had_seen_it(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    with running_redis() as url:
        connection = RedisConnection(url, prefix="test:", timeout_seconds=60)
        one, other = (Process(connection, object_store, AT_ONCE) for _ in range(2))
        one.index.compare()
        one.write(session(1), claim_on(session(1)))
        one.listed()
        other.listed()
        with lost(connection):
            one.write(session(2, second=2), claim_on(session(2)))
        start_over(connection)
        object_server.forget_requests()
        with object_server.meddled(refuse):
            assert one.index.listing().complete is False
            wait_until(lambda: not connection.client.exists(one.entries.key("rebuilding")))
        object_server.forget_requests()
        expected = shown(session(2, second=2), session(1))
        wait_until(lambda: one.listed() == other.listed() == expected)
        wait_until(lambda: one.index.listing().complete and other.index.listing().complete)
        assert lists_read(object_server) == 1
        claims = {each.session_id for each in one.index.claims()}
        assert claims == {session(1).session_id, session(2).session_id}
        assert {each.session_id for each in other.index.claims()} == claims
        connection.close()


def test_a_comparison_does_not_hold_for_a_redis_that_took_over_meanwhile(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    with running_redis() as url:
        connection = RedisConnection(url, prefix="test:", timeout_seconds=60)
        one = Process(connection, object_store)

        def fail_over(_request: Request, serve: Serve) -> Answer:
            start_over(connection)
            return serve()

        with object_server.meddled(fail_over):
            one.index.compare()
        assert lists_read(object_server) == 1
        wait_until(lambda: one.index.listing().complete)
        assert lists_read(object_server) == 2
        connection.close()


def test_a_loss_has_the_index_compared_soon(
    processes: tuple[Process, Process], redis_connection: RedisConnection
) -> None:
    one, _ = processes
    one.write(session(1))
    one.listed()
    entries = one.entries
    assert entries.look(index_entries.FIRST, due_after_ms=0).unchecked_ms < 3_600_000
    redis_connection.client.xtrim(entries.key("log"), maxlen=0, approximate=False)
    assert one.listed() == shown(session(1))
    assert entries.look(index_entries.FIRST, due_after_ms=0).unchecked_ms > 3_600_000


def test_a_comparison_finds_what_others_put_in_and_took_out(
    processes: tuple[Process, Process], object_store: ObjectStore, object_server: ObjectServer
) -> None:
    one, other = processes
    for number in range(4):
        one.write(session(number, second=number))
    one.put(session(8, second=8))
    one.put(session(1, "changed", 9))
    object_store.delete(f"{session(2).session_id}.json")
    object_server.forget_requests()
    other.index.compare()
    expected = shown(
        session(1, "changed", 9), session(8, second=8), session(3, second=3), session(0)
    )
    assert one.listed() == other.listed() == expected
    assert sorted(heads_read(object_server)) == sorted(
        session(number).session_id for number in (1, 2, 8)
    )


def test_a_comparison_is_due_once_in_a_while(
    redis_connection: RedisConnection, object_store: ObjectStore, object_server: ObjectServer
) -> None:
    Process(redis_connection, object_store).index.compare()
    object_server.forget_requests()
    Process(redis_connection, object_store).index.claims()
    assert lists_read(object_server) == 0
    always = IndexTimes(checked_ms=-1, wait_seconds=60)
    looking = Process(redis_connection, object_store, always)
    looking.put(session(1))
    assert looking.listed() == shown(session(1))
    assert lists_read(object_server) == 1


def test_a_comparison_finds_every_claim(
    processes: tuple[Process, Process],
) -> None:
    one, other = processes
    told, untold = session(1), session(2)
    one.write(told, claim_on(told))
    one.put(untold, claim_on(untold))
    one.write(session(3))
    other.index.compare()
    for process in (one, other):
        claims = process.index.claims()
        assert sorted((each.session_id, each.turn_id, each.owner) for each in claims) == [
            (each.session_id, "a-turn", "some-owner") for each in (told, untold)
        ]


def test_who_lost_the_comparison_to_another_does_not_end_it(
    redis_connection: RedisConnection, object_store: ObjectStore, object_server: ObjectServer
) -> None:
    slow = Process(redis_connection, object_store)
    slow.put(session(1))
    lock = slow.entries.key("rebuilding")
    taken: list[bytes | None] = []

    def take_over(request: Request, serve: Serve) -> Answer:
        if not taken:
            taken.append(redis_connection.client.get(lock))
            redis_connection.client.set(lock, b"another")
        return serve()

    with object_server.meddled(take_over):
        token = slow.entries.look(b"0-0", due_after_ms=0).build
        assert token == ""
        assert slow.index.listing().complete is False
    assert redis_connection.client.get(lock) == b"another"
    assert redis_connection.client.exists(slow.entries.key("state")) == 0


# --- Without Redis, without the store -----------------------------------------------------------


def test_lists_are_served_without_redis_and_it_is_told_later(
    redis_server: str, redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    link = Link(redis_server, prefix=redis_connection.prefix)
    one = Process(link, object_store, AT_ONCE)
    other = Process(redis_connection, object_store)
    one.index.compare()
    one.write(session(1))
    one.listed()
    link.is_cut = True
    one.write(session(2, second=1))
    one.index.unwritten(session(1).session_id, one.index.writing(session(1).session_id))
    assert one.listed() == shown(session(2, second=1), session(1))
    assert one.index.listing().complete is False
    assert other.listed() == shown(session(1))
    link.is_cut = False
    assert one.listed() == shown(session(2, second=1), session(1))
    assert other.listed() == one.listed()
    assert one.index.listing().complete


def refuse(request: Request, serve: Serve) -> Answer:
    return Answer("503 Slow Down", [("Content-Length", "0")], b"")


def test_lists_are_served_without_the_store_and_what_is_due_stays_due(
    redis_connection: RedisConnection, object_store: ObjectStore, object_server: ObjectServer
) -> None:
    one = Process(redis_connection, object_store, AT_ONCE)
    one.index.compare()
    one.write(session(1))
    one.index.writing(session(2).session_id)
    one.put(session(2, second=1))
    with object_server.meddled(refuse):
        assert one.listed() == shown(session(1))
        with pytest.raises(StorageUnavailable):
            one.index.compare()
    assert one.listed() == shown(session(2, second=1), session(1))


def test_an_index_that_could_not_be_made_is_not_taken_for_complete(
    redis_connection: RedisConnection, object_store: ObjectStore, object_server: ObjectServer
) -> None:
    one = Process(redis_connection, object_store, AT_ONCE)
    one.put(session(1))
    with object_server.meddled(refuse):
        assert one.index.listing().complete is False
    assert one.index.listing().complete
    assert one.listed() == shown(session(1))


def test_another_store_has_another_index(
    redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    one = Process(redis_connection, object_store)
    one.index.compare()
    one.write(session(1))
    other = Process(redis_connection, object_store.under("elsewhere"), AT_ONCE)
    assert other.listed() == []
    assert other.index.listing().complete
    assert one.listed() == shown(session(1))
