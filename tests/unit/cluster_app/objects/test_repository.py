"""Sessions are objects: what each holds beside its session, and what each call asks for."""

import json
from typing import cast

import pytest

from cluster_app.objects.repository import ObjectSessionRepository
from cluster_app.objects.session_objects import SessionObjects
from cluster_app.objects.store import (
    ObjectMissing,
    ObjectStore,
    ObjectTooLarge,
    StoredObject,
)
from sessions_app.errors import (
    SessionBusy,
    SessionCorrupt,
    SessionNotFound,
    SessionReadOnly,
    StorageUnavailable,
)
from sessions_app.format.codec import encode
from sessions_app.session import Session
from tests.claims import claim_session, hold_of
from tests.contract.memory_index import MemorySessionIndex
from tests.contract.memory_repository import MemoryOwners
from tests.object_server import ObjectServer, refusal
from tests.unit.cluster_app.objects.conftest import OpenRepository
from tests.unit.cluster_app.objects.sessions import (
    FIRST,
    KEY,
    asked,
    document,
    say,
    texts,
    whole_life,
)


def test_an_object_is_a_session_file_with_its_claim_behind_the_metadata(
    repository: ObjectSessionRepository, object_store: ObjectStore, new_session: Session
) -> None:
    repository.create(new_session)
    claim_session(repository, FIRST, "t1", change=say("Hello"))
    repository.update(
        FIRST, lambda session: session, hold=hold_of(repository, "t1"), begun=["call_1"]
    )
    found = document(object_store)
    assert list(found) == ["metadata", "revision", "earlier", "turn", "messages"]
    assert found["turn"] == {
        "id": "t1",
        "worker": repository.owners.mine(),
        "started_at": found["turn"]["started_at"],
        "calls": ["call_1"],
    }
    assert len(found["earlier"]) == 2
    assert repository.load(FIRST) == say("Hello")(new_session)


def test_a_session_without_messages_has_an_envelope_too(
    repository: ObjectSessionRepository, object_store: ObjectStore, new_session: Session
) -> None:
    repository.create(new_session)
    claim_session(repository, FIRST, "t1")
    assert list(document(object_store)) == ["metadata", "revision", "earlier", "turn", "messages"]
    assert repository.load(FIRST) == new_session


def test_without_its_envelope_an_object_is_the_file_of_its_session(
    repository: ObjectSessionRepository, object_store: ObjectStore, new_session: Session
) -> None:
    repository.create(say("Hello")(new_session))
    found = document(object_store)
    del found["revision"], found["earlier"]
    assert found == json.loads(encode(repository.load(FIRST)))


def test_a_file_that_was_put_there_is_a_session_and_keeps_what_is_unknown(
    repository: ObjectSessionRepository, object_store: ObjectStore, new_session: Session
) -> None:
    raw = json.loads(encode(say("Hello")(new_session)))
    raw["metadata"]["x_mine"] = raw["messages"][0]["x_mine"] = raw["x_mine"] = [1, 1 << 70]
    object_store.put(KEY, json.dumps(raw).encode())
    repository.update(FIRST, say("Bye"))
    found = document(object_store)
    assert found["x_mine"] == found["metadata"]["x_mine"] == found["messages"][0]["x_mine"]
    assert texts(repository.load(FIRST)) == ["Hello", "Bye"]


def test_an_envelope_from_elsewhere_is_not_taken_over(
    repository: ObjectSessionRepository, object_store: ObjectStore, new_session: Session
) -> None:
    copied = Session(metadata=new_session.metadata, extra={"turn": {"id": "t9"}, "revision": "r"})
    repository.create(copied)
    assert repository.claim_of(FIRST) is None
    assert document(object_store)["revision"] != "r"


@pytest.mark.parametrize("turn", [{"id": "../x", "worker": "../w"}, {"id": 1}, "t1", [], {}])
def test_a_claim_that_makes_no_sense_is_that_of_a_dead_turn(
    repository: ObjectSessionRepository,
    object_store: ObjectStore,
    new_session: Session,
    turn: object,
) -> None:
    raw = json.loads(encode(new_session)) | {"turn": turn}
    object_store.put(KEY, json.dumps(raw).encode())
    claim = repository.claim_of(FIRST)
    assert claim is not None
    assert "/" not in claim.turn_id
    repository.update_idle(FIRST, say("Hello"), recover=lambda session, _claim: session)
    assert repository.claim_of(FIRST) is None


def test_what_is_no_session_is_corrupt_and_can_be_deleted(
    repository: ObjectSessionRepository, object_store: ObjectStore
) -> None:
    object_store.put(KEY, b"what is this")
    with pytest.raises(SessionCorrupt):
        repository.load(FIRST)
    with pytest.raises(SessionCorrupt):
        repository.update(FIRST, say("Hello"))
    assert repository.claim_of(FIRST) is None
    repository.delete(FIRST)
    with pytest.raises(SessionNotFound):
        repository.load(FIRST)


def test_a_newer_servers_session_can_be_read_and_deleted_only(
    repository: ObjectSessionRepository, object_store: ObjectStore, new_session: Session
) -> None:
    raw = json.loads(encode(new_session))
    raw["metadata"]["format_version"] = "1.9"
    object_store.put(KEY, json.dumps(raw).encode())
    repository.update(FIRST, say("Hello"))
    raw["metadata"]["format_version"] = "2.0"
    object_store.put(KEY, json.dumps(raw).encode())
    for call in (
        lambda: repository.update(FIRST, say("Hello")),
        lambda: repository.update_idle(FIRST, say("Hello")),
        lambda: claim_session(repository, FIRST, "t1"),
    ):
        with pytest.raises(SessionReadOnly):
            call()
    repository.delete(FIRST)


def test_a_turn_costs_two_writes_and_no_read(
    repository: ObjectSessionRepository, object_server: ObjectServer, new_session: Session
) -> None:
    repository.create(new_session)
    object_server.forget_requests()
    for number in range(3):
        claim_session(repository, FIRST, f"t{number}", change=say("question"))
        repository.update(
            FIRST, say("answer"), hold=hold_of(repository, f"t{number}"), release=True
        )
        assert asked(object_server) == ["PUT", "PUT"]
    assert repository.recall(FIRST) == repository.load(FIRST)


def test_a_new_session_is_claimed_with_its_first_write(
    repository: ObjectSessionRepository, object_server: ObjectServer, new_session: Session
) -> None:
    object_server.forget_requests()
    claim_session(repository, FIRST, "t1", change=say("question"), new=new_session)
    assert asked(object_server) == ["PUT"]


def test_what_another_process_wrote_is_read_once(
    open_repository: OpenRepository, object_server: ObjectServer, new_session: Session
) -> None:
    mine, other = open_repository(), open_repository()
    mine.create(new_session)
    other.update(FIRST, say("Hello"))
    object_server.forget_requests()
    assert texts(mine.load(FIRST)) == ["Hello"]
    assert asked(object_server) == ["GET"]
    mine.load(FIRST)
    assert [request.if_none_match is not None for request in object_server.requests] == [True]
    object_server.forget_requests()
    other.update(FIRST, say("again"))
    asked(object_server)
    assert texts(mine.update(FIRST, say("Bye"))) == ["Hello", "again", "Bye"]
    assert asked(object_server) == ["PUT", "GET", "PUT"]


def test_a_session_and_its_claim_are_read_at_once(
    open_repository: OpenRepository, object_server: ObjectServer, new_session: Session
) -> None:
    mine = open_repository()
    mine.create(new_session)
    claim_session(mine, FIRST, "t1")
    other = open_repository()
    object_server.forget_requests()
    session, claim = other.load_claimed(FIRST)
    assert asked(object_server) == ["GET"]
    assert claim is not None
    assert (session, claim.turn_id) == (new_session, "t1")
    other.release(FIRST, hold_of(other, "t1"))
    assert asked(object_server) == ["PUT"], "what was just read is not read again"


def test_what_is_refused_is_asked_again_of_the_newest_session(
    open_repository: OpenRepository, new_session: Session
) -> None:
    mine, other = open_repository(), open_repository()
    mine.create(new_session)
    claim_session(mine, FIRST, "t1")
    other.update(FIRST, say("done"), hold=hold_of(other, "t1"), release=True)
    with pytest.raises(SessionBusy):
        mine.update(FIRST, say("more"), hold=hold_of(mine, "t1"))
    claim_session(mine, FIRST, "t2")
    other.release(FIRST, hold_of(other, "t2"))
    mine.update_idle(FIRST, say("it was busy when this process read it last"))
    assert mine.claim_of(FIRST) is None


def test_a_change_that_changes_nothing_is_told_of_the_newest_session(
    open_repository: OpenRepository, object_server: ObjectServer, new_session: Session
) -> None:
    mine, other = open_repository(), open_repository()
    mine.create(new_session)
    other.update(FIRST, say("Hello"))
    object_server.forget_requests()
    assert texts(mine.update(FIRST, lambda session: session)) == ["Hello"]
    assert asked(object_server) == ["GET"]


def test_the_index_is_told_of_every_write(
    repository: ObjectSessionRepository,
    object_store: ObjectStore,
    index: MemorySessionIndex,
    new_session: Session,
) -> None:
    whole_life(repository, new_session)
    assert index.etags == {FIRST: object_store.get(KEY).tag.etag}
    assert index.marks == {}
    claim_session(repository, FIRST, "t3")
    claim = index.claimed[FIRST]
    assert claim is not None
    assert claim.turn_id == "t3"
    repository.release(FIRST, hold_of(repository, "t3"))
    repository.delete(FIRST)
    assert (index.etags, index.marks) == ({}, {})


def test_only_an_unclear_write_leaves_its_mark(
    repository: ObjectSessionRepository,
    object_server: ObjectServer,
    index: MemorySessionIndex,
    new_session: Session,
) -> None:
    repository.create(new_session)
    with (
        object_server.meddled(lambda request, serve: refusal("403 Forbidden")),
        pytest.raises(StorageUnavailable),
    ):
        repository.update(FIRST, say("Hello"))
    assert index.marks == {}
    with (
        object_server.meddled(lambda request, serve: refusal("503 Slow Down")),
        pytest.raises(StorageUnavailable),
    ):
        repository.update(FIRST, say("Hello"))
    assert set(index.marks.values()) == {FIRST}


def test_the_index_is_compared_for_who_lists_anew(
    object_store: ObjectStore,
) -> None:
    index = MemorySessionIndex()
    repository = ObjectSessionRepository(
        object_store, deleted=None, owners=MemoryOwners(), index=index
    )
    repository.list()
    assert index.compared == 0
    repository.list(anew=True)
    assert index.compared == 1


def test_a_large_object_that_vanishes_while_it_is_looked_at_is_not_found(
    index: MemorySessionIndex,
) -> None:
    class Vanishing:
        def get(self, key: str) -> StoredObject:
            raise ObjectTooLarge(key)

        def head_bytes(self, key: str, size: int) -> StoredObject:
            raise ObjectMissing(key)

    objects = SessionObjects(cast("ObjectStore", Vanishing()), index)
    with pytest.raises(SessionNotFound):
        objects.raw(FIRST)
