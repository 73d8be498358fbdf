"""The index of sessions in Redis says what the objects say, whatever became of writes."""

import pytest

from cluster_app.objects.store import ObjectStore
from cluster_app.redis import index_entries
from cluster_app.redis.connection import RedisConnection
from tests.object_server import Answer, ObjectServer, Request, Serve
from tests.unit.cluster_app.redis.processes import (
    AT_ONCE,
    Process,
    heads_read,
    session,
    shown,
)


def test_what_one_process_writes_the_others_list_last_change_first(
    processes: tuple[Process, Process],
) -> None:
    one, other = processes
    assert other.listed() == []
    first, second = session(1, "first", 1), session(2, "second", 2)
    one.write(first)
    one.write(second)
    assert one.listed() == other.listed() == shown(second, first)
    first = session(1, "first, changed", 3)
    other.write(first)
    assert one.listed() == other.listed() == shown(first, second)
    one.delete(second)
    assert one.listed() == other.listed() == shown(first)
    assert one.index.listing().complete


def test_a_new_process_lists_what_was_written_before_it(
    processes: tuple[Process, Process],
    redis_connection: RedisConnection,
    object_store: ObjectStore,
    object_server: ObjectServer,
) -> None:
    processes[0].write(session(1))
    object_server.forget_requests()
    late = Process(redis_connection, object_store)
    assert late.listed() == shown(session(1))
    assert late.index.listing().complete
    assert object_server.requests == []


def test_the_metadata_are_those_of_the_session_unknown_keys_too(
    processes: tuple[Process, Process],
) -> None:
    one, other = processes
    kept = session(1, "half a \ud83d character")
    one.write(kept)
    strange = session(2).metadata.__class__(
        session_id=f"{2:010x}", model="m", created_at="x", updated_at="x", extra={"new": [1]}
    )
    mark = one.index.writing(strange.session_id)
    one.index.wrote(strange.session_id, mark, etag="tag", metadata=strange)
    listed = {each.session_id: each for each in other.index.listing().sessions}
    assert listed[strange.session_id] == strange
    assert listed[kept.session_id].updated_at == kept.metadata.updated_at


def test_nothing_is_read_and_nothing_arranged_while_nothing_changes(
    processes: tuple[Process, Process], object_server: ObjectServer
) -> None:
    one, _ = processes
    one.write(session(1))
    before = one.index.listing()
    object_server.forget_requests()
    assert one.index.listing() is before
    assert object_server.requests == []


def test_a_write_that_nobody_told_of_is_found(
    processes: tuple[Process, Process], redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    one, other = processes
    kept = session(1)
    one.index.writing(kept.session_id)
    one.put(kept)
    assert other.listed() == []
    looking = Process(redis_connection, object_store, AT_ONCE)
    assert looking.listed() == other.listed() == shown(kept)


def test_a_removal_that_nobody_told_of_is_found(
    processes: tuple[Process, Process], redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    one, other = processes
    kept = session(1)
    one.write(kept)
    one.index.writing(kept.session_id)
    object_store.delete(f"{kept.session_id}.json")
    assert other.listed() == shown(kept)
    assert Process(redis_connection, object_store, AT_ONCE).listed() == other.listed() == []


def test_a_session_that_was_read_again_is_not_read_once_more(
    processes: tuple[Process, Process],
    redis_connection: RedisConnection,
    object_store: ObjectStore,
    object_server: ObjectServer,
) -> None:
    one, _ = processes
    one.index.writing(session(1).session_id)
    one.put(session(1))
    looking = Process(redis_connection, object_store, AT_ONCE)
    object_server.forget_requests()
    for _ in range(3):
        assert looking.listed() == shown(session(1))
    assert heads_read(object_server) == [session(1).session_id]


def test_a_write_that_was_not_made_leaves_nothing_to_look_for(
    processes: tuple[Process, Process],
    redis_connection: RedisConnection,
    object_store: ObjectStore,
    object_server: ObjectServer,
) -> None:
    one, _ = processes
    one.write(session(1))
    one.index.unwritten(session(1).session_id, one.index.writing(session(1).session_id))
    object_server.forget_requests()
    assert Process(redis_connection, object_store, AT_ONCE).listed() == shown(session(1))
    assert object_server.requests == []


def test_of_writes_that_overlap_the_object_decides_which_was_the_last(
    processes: tuple[Process, Process], redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    one, other = processes
    old, new = session(1, "old", 1), session(1, "new", 2)
    marks = [process.index.writing(old.session_id) for process in processes]
    tags = one.put(old), other.put(new)
    other.index.wrote(new.session_id, marks[1], etag=tags[1], metadata=new.metadata)
    one.index.wrote(old.session_id, marks[0], etag=tags[0], metadata=old.metadata)
    assert Process(redis_connection, object_store, AT_ONCE).listed() == shown(new)
    assert one.listed() == other.listed() == shown(new)


def test_a_write_that_was_given_up_changes_nothing_when_it_is_told_of_after_all(
    processes: tuple[Process, Process], redis_connection: RedisConnection, object_store: ObjectStore
) -> None:
    one, other = processes
    old, new = session(1, "old", 1), session(1, "new", 2)
    mark = one.index.writing(old.session_id)
    tag = one.put(old)
    looking = Process(redis_connection, object_store, AT_ONCE)
    assert looking.listed() == shown(old)
    other.write(new)
    one.index.wrote(old.session_id, mark, etag=tag, metadata=old.metadata)
    assert other.listed() == shown(new)
    assert looking.listed() == other.listed() == shown(new)


def test_what_is_read_again_gives_way_to_who_writes_meanwhile(
    processes: tuple[Process, Process],
    redis_connection: RedisConnection,
    object_store: ObjectStore,
    object_server: ObjectServer,
) -> None:
    one, other = processes
    old, new = session(1, "old", 1), session(1, "new", 2)
    one.index.writing(old.session_id)
    one.put(old)
    looking = Process(redis_connection, object_store, AT_ONCE)
    newer = [new]

    def be_slower(request: Request, serve: Serve) -> Answer:
        answer = serve()
        if request.method == "GET" and newer:
            other.write(newer.pop())
        return answer

    with object_server.meddled(be_slower):
        looking.index.listing()
    assert newer == []
    assert looking.listed() == other.listed() == shown(new)


def test_an_entry_that_can_not_be_read_is_made_again(
    processes: tuple[Process, Process], redis_connection: RedisConnection
) -> None:
    one, other = processes
    one.write(session(1))
    mark = one.index.writing(session(1).session_id)
    entries = one.entries
    entries.wrote(session(1).session_id, mark, b'{"of": "a newer server"}')
    assert other.listed() == one.listed() == shown(session(1))


@pytest.mark.parametrize("passage", [1, 3])
def test_many_changes_at_once_are_all_seen(
    processes: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch, passage: int
) -> None:
    one, other = processes
    monkeypatch.setattr(index_entries, "PASSAGE", passage)
    other.listed()
    written = [session(number, second=number) for number in range(8)]
    for each in written:
        one.write(each)
    one.delete(written[0])
    assert other.listed() == shown(*reversed(written[1:]))
