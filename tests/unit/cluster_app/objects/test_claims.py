"""Claims are in the objects of their sessions; the index names them; a deletion ends all of it."""

import pytest

from cluster_app.objects import session_objects
from cluster_app.objects.repository import ObjectSessionRepository
from cluster_app.objects.store import ObjectStore
from sessions_app.errors import (
    SessionBusy,
    SessionExists,
    SessionNotFound,
    StorageUnavailable,
    ValidationFailed,
)
from sessions_app.session import Session, with_metadata
from sessions_app.store import session_files
from sessions_app.store.repository import Claim
from tests.claims import claim_session, hold_of
from tests.contract.memory_index import MemorySessionIndex
from tests.contract.memory_repository import MemoryOwners
from tests.object_server import Answer, ObjectServer, Request, Serve, refusal
from tests.unit.cluster_app.objects.conftest import OpenRepository
from tests.unit.cluster_app.objects.sessions import (
    FIRST,
    LATER,
    asked,
    say,
    texts,
)


def test_a_claim_stands_until_its_turn_lets_go_of_it(
    repository: ObjectSessionRepository, new_session: Session
) -> None:
    repository.create(new_session)
    claim_session(repository, FIRST, "t1")
    with pytest.raises(SessionBusy):
        claim_session(repository, FIRST, "t2")
    with pytest.raises(SessionExists):
        claim_session(repository, FIRST, "t3", new=new_session)
    assert [claim.turn_id for claim in repository.claims()] == ["t1"]
    repository.update(FIRST, say("answer"), hold=hold_of(repository, "t1"), release=True)
    assert repository.claims() == []


@pytest.mark.parametrize("is_made", [True, False])
def test_a_claim_that_may_have_been_made_is_marked_to_be_read(
    repository: ObjectSessionRepository,
    object_server: ObjectServer,
    index: MemorySessionIndex,
    new_session: Session,
    is_made: bool,
) -> None:
    repository.create(new_session)

    def vanish(request: Request, serve: Serve) -> Answer:
        if request.writes and is_made:
            serve()
        return refusal("503 Slow Down")

    with object_server.meddled(vanish), pytest.raises(StorageUnavailable):
        claim_session(repository, FIRST, "t1")
    assert set(index.marks.values()) == {FIRST}
    claim = repository.claim_of(FIRST)
    assert (claim is not None) == is_made


def test_a_dead_claim_is_found_and_one_that_is_gone_since_is_not(
    repository: ObjectSessionRepository,
    index: MemorySessionIndex,
    owners: MemoryOwners,
    new_session: Session,
) -> None:
    repository.create(new_session)
    claim_session(repository, FIRST, "t1")
    old = Claim(session_id="0123456789", turn_id="t1", owner=owners.mine(), started_at=LATER)
    index.claimed["0123456789"] = old
    owners.condemn()
    assert [(claim.session_id, claim.alive) for claim in repository.claims()] == [(FIRST, False)]


def test_living_claims_are_told_without_reading(
    repository: ObjectSessionRepository, object_server: ObjectServer, new_session: Session
) -> None:
    repository.create(new_session)
    claim_session(repository, FIRST, "t1")
    asked(object_server)
    assert [claim.alive for claim in repository.claims()] == [True]
    assert asked(object_server) == []


def test_a_dead_claim_that_the_index_lacks_is_sealed_by_who_visits_it(
    repository: ObjectSessionRepository,
    index: MemorySessionIndex,
    owners: MemoryOwners,
    new_session: Session,
) -> None:
    """The write of a claim may come to the store after its process was given up."""
    repository.create(new_session)
    claim_session(repository, FIRST, "t1")
    index.claimed.clear()
    owners.condemn()
    sealed: list[Claim] = []

    def seal(session: Session, claim: Claim) -> Session:
        sealed.append(claim)
        return say("sealed")(session)

    assert texts(repository.update_idle(FIRST, say("Hello"), recover=seal)) == ["sealed", "Hello"]
    assert [(claim.turn_id, claim.alive) for claim in sealed] == [("t1", False)]


def test_a_turn_that_left_its_claim_is_dead_although_its_process_lives(
    object_store: ObjectStore,
    owners: MemoryOwners,
    index: MemorySessionIndex,
    new_session: Session,
) -> None:
    left: set[tuple[str, str]] = set()
    repository = ObjectSessionRepository(
        object_store.under("sessions"),
        deleted=object_store.under("deleted"),
        owners=owners,
        index=index,
        is_over=lambda session_id, turn_id: (session_id, turn_id) in left,
    )
    repository.create(new_session)
    claim_session(repository, FIRST, "t1")
    assert [claim.alive for claim in repository.claims()] == [True]
    left.add((FIRST, "t1"))
    claim = repository.claim_of(FIRST)
    assert claim is not None
    assert not claim.alive
    claim_session(repository, FIRST, "t2", recover=lambda session, _claim: say("s")(session))
    assert texts(repository.load(FIRST)) == ["s"]


def test_a_recovery_has_room_that_other_changes_have_not(
    repository: ObjectSessionRepository,
    owners: MemoryOwners,
    new_session: Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_files, "SIZE_LIMIT", 640_000)
    repository.create(new_session)
    claim_session(repository, FIRST, "t1")
    most = "x" * 316_000  # twice: it is its own id
    with pytest.raises(ValidationFailed):
        repository.update(FIRST, say(most), hold=hold_of(repository, "t1"))
    owners.condemn()
    claim_session(repository, FIRST, "t2", recover=lambda session, _claim: say(most)(session))
    assert len(texts(repository.load(FIRST))) == 1
    repository.update(FIRST, lambda session: with_metadata(session, now=LATER, model="m"))


def test_a_recovery_asks_whether_it_fits(
    repository: ObjectSessionRepository, new_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.create(new_session)
    assert repository.can_hold(say("Hello")(new_session))
    monkeypatch.setattr(session_objects, "SIZE_LIMIT", 2_000)
    assert not repository.can_hold(say("x" * 2_000)(new_session))


def test_a_deletion_stands_before_the_object_is_gone(
    open_repository: OpenRepository, object_server: ObjectServer, new_session: Session
) -> None:
    """A crash or a cut in the middle of it leaves a session that nobody can use any more."""
    mine, other = open_repository(), open_repository()
    mine.create(new_session)
    other.load(FIRST)

    def refuse_removing(request: Request, serve: Serve) -> Answer:
        return refusal("503 Slow Down") if request.method == "POST" else serve()

    with object_server.meddled(refuse_removing), pytest.raises(StorageUnavailable):
        mine.delete(FIRST)
    for repository in (mine, other):
        for call in (
            lambda repository=repository: repository.load(FIRST),
            lambda repository=repository: repository.update(FIRST, say("Hello")),
            lambda repository=repository: claim_session(repository, FIRST, "t1"),
        ):
            with pytest.raises(SessionNotFound):
                call()
        assert repository.deleted_at(FIRST) is not None
        assert repository.claim_of(FIRST) is None
    with pytest.raises(SessionNotFound):
        other.delete(FIRST)
    mine.create(new_session)
    assert mine.deleted_at(FIRST) is None


def test_a_session_that_is_not_kept_leaves_nothing(
    object_store: ObjectStore,
    owners: MemoryOwners,
    index: MemorySessionIndex,
    new_session: Session,
) -> None:
    repository = ObjectSessionRepository(
        object_store.under("sessions"), deleted=None, owners=owners, index=index
    )
    repository.create(new_session)
    repository.delete(FIRST)
    assert list(object_store.list()) == []


def test_what_was_deleted_long_ago_is_forgotten(
    repository: ObjectSessionRepository, new_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.create(new_session)
    repository.delete(FIRST)
    monkeypatch.setattr("cluster_app.objects.repository.KEPT_SECONDS", -3600.0)
    assert repository.sweep() == 1
    assert repository.deleted_at(FIRST) is None


def test_many_claims_of_living_processes_cost_one_look_at_each_process_and_no_object(
    object_store: ObjectStore,
    owners: MemoryOwners,
    index: MemorySessionIndex,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_over(session_id: str, turn_id: str) -> bool:
        raise AssertionError("a turn was looked at")

    repository = ObjectSessionRepository(
        object_store, deleted=None, owners=owners, index=index, is_over=is_over
    )
    for number in range(50):
        session_id = f"{number:010x}"
        index.claimed[session_id] = Claim(
            session_id=session_id, turn_id="t1", owner=owners.mine(), started_at=LATER
        )
    looks: list[str] = []
    monkeypatch.setattr(owners, "lives", lambda owner: not looks.append(owner))
    assert len(repository.claims()) == 50
    assert looks == [owners.mine()]


def test_what_was_deleted_lately_is_remembered_and_seldom_looked_for(
    repository: ObjectSessionRepository, new_session: Session, object_server: ObjectServer
) -> None:
    repository.create(new_session)
    repository.delete(FIRST)
    object_server.forget_requests()
    assert [repository.sweep() for _ in range(3)] == [0, 0, 0]
    assert len(object_server.requests) == 1
    assert repository.deleted_at(FIRST) is not None
