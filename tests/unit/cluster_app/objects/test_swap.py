"""Changes are swapped in: nothing is lost or made twice, whoever writes and whatever is lost."""

import threading

import pytest

from cluster_app.objects.repository import ObjectSessionRepository
from cluster_app.objects.store import ObjectStore
from sessions_app.errors import (
    SessionBusy,
    SessionNotFound,
    StorageUnavailable,
)
from sessions_app.ids_and_clock import utc_now
from sessions_app.session import Session, with_metadata
from sessions_app.store.envelope import is_tombstone, tombstone
from tests.claims import claim_session, hold_of
from tests.object_server import Answer, ObjectServer, Request, Serve, refusal
from tests.unit.cluster_app.objects.conftest import OpenRepository
from tests.unit.cluster_app.objects.sessions import (
    FIRST,
    KEY,
    LATER,
    LIFE,
    WRITES,
    asked,
    say,
    texts,
    whole_life,
)


def test_processes_lose_nothing(open_repository: OpenRepository, new_session: Session) -> None:
    open_repository().create(new_session)

    def write(name: str) -> None:
        repository = open_repository()
        for number in range(10):
            repository.update(FIRST, say(f"{name}{number}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = texts(open_repository().load(FIRST))
    assert sorted(said) == [f"{name}{number}" for name in "abc" for number in range(10)]


def test_one_of_many_claims_wins(open_repository: OpenRepository, new_session: Session) -> None:
    open_repository().create(new_session)
    won: list[str] = []

    def claim(turn_id: str) -> None:
        try:
            claim_session(open_repository(), FIRST, turn_id, change=say(turn_id))
        except SessionBusy:
            return
        won.append(turn_id)

    threads = [threading.Thread(target=claim, args=(f"t{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert texts(open_repository().load(FIRST)) == won


def test_equal_sessions_have_different_objects(
    open_repository: OpenRepository, object_store: ObjectStore, new_session: Session
) -> None:
    """Tags of equal bytes are equal: who was away for two changes must not take them for none."""
    mine, other = open_repository(), open_repository()
    mine.create(new_session)
    first = object_store.get(KEY).tag
    other.update(FIRST, lambda session: with_metadata(session, now=LATER, model="other"))
    other.update(FIRST, lambda _session: new_session)
    assert object_store.get(KEY).tag != first
    seen: list[Session] = []
    mine.update(FIRST, lambda session: seen.append(session) or say("Hello")(session))
    assert len(seen) == 2


@pytest.mark.parametrize("status", ["409 Conflict", "412 Precondition Failed", "404 Not Found"])
def test_a_conflict_that_the_store_tells_in_any_way_is_tried_again(
    repository: ObjectSessionRepository,
    object_server: ObjectServer,
    new_session: Session,
    status: str,
) -> None:
    repository.create(new_session)
    refused: list[Request] = []

    def refuse_first(request: Request, serve: Serve) -> Answer:
        if request.writes and not refused:
            refused.append(request)
            return refusal(status)
        return serve()

    with object_server.meddled(refuse_first):
        repository.update(FIRST, say("Hello"))
    assert refused
    assert texts(repository.load(FIRST)) == ["Hello"]


def test_a_session_that_always_changes_is_busy(
    repository: ObjectSessionRepository,
    object_server: ObjectServer,
    new_session: Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster_app.objects.swap.LONGEST_PAUSE_SECONDS", 0.001)
    repository.create(new_session)

    def refuse(request: Request, serve: Serve) -> Answer:
        return refusal("412 Precondition Failed") if request.writes else serve()

    with object_server.meddled(refuse), pytest.raises(SessionBusy):
        repository.update(FIRST, say("Hello"))
    assert repository.load(FIRST) == new_session


@pytest.mark.parametrize("lost", range(WRITES))
@pytest.mark.parametrize("how", ["nothing", "503 Slow Down", "500 Internal Server Error"])
def test_a_write_whose_answer_got_lost_was_made_once(
    repository: ObjectSessionRepository,
    object_server: ObjectServer,
    new_session: Session,
    lost: int,
    how: str,
) -> None:
    written: list[Request] = []

    def lose(request: Request, serve: Serve) -> Answer | None:
        answer = serve()
        if not request.writes:
            return answer
        written.append(request)
        if len(written) - 1 != lost:
            return answer
        return None if how == "nothing" else refusal(how)

    with object_server.meddled(lose):
        whole_life(repository, new_session)
    assert len(written) == WRITES
    assert texts(repository.load(FIRST)) == LIFE
    assert repository.claim_of(FIRST) is None


@pytest.mark.parametrize("every", [2, 3, 5])
def test_every_lost_answer_is_found(
    repository: ObjectSessionRepository,
    object_server: ObjectServer,
    new_session: Session,
    every: int,
) -> None:
    count = 0

    def lose(request: Request, serve: Serve) -> Answer | None:
        nonlocal count
        answer = serve()
        count += request.writes
        return None if request.writes and count % every == 0 else answer

    with object_server.meddled(lose):
        whole_life(repository, new_session)
        repository.delete(FIRST)
    with pytest.raises(SessionNotFound):
        repository.load(FIRST)
    assert repository.deleted_at(FIRST) is not None


@pytest.mark.parametrize("lost", range(WRITES))
def test_a_write_that_was_not_made_is_made_again(
    repository: ObjectSessionRepository,
    object_server: ObjectServer,
    new_session: Session,
    lost: int,
) -> None:
    count = 0

    def drop(request: Request, serve: Serve) -> Answer | None:
        nonlocal count
        if request.writes:
            count += 1
            if count == lost + 1:
                return None
        return serve()

    with object_server.meddled(drop):
        whole_life(repository, new_session)
    assert texts(repository.load(FIRST)) == LIFE


def test_a_lost_answer_is_found_although_others_wrote_since(
    open_repository: OpenRepository, object_server: ObjectServer, new_session: Session
) -> None:
    mine, other = open_repository(), open_repository()
    mine.create(new_session)
    lost: list[Request] = []

    def lose_and_let_others_write(request: Request, serve: Serve) -> Answer | None:
        answer = serve()
        if not request.writes or lost:
            return answer
        lost.append(request)
        for number in range(8):
            other.update(FIRST, say(f"other {number}"))
        return None

    with object_server.meddled(lose_and_let_others_write):
        mine.update(FIRST, say("mine"))
    said = texts(mine.load(FIRST))
    assert said == ["mine", *(f"other {number}" for number in range(8))]


def test_a_store_that_says_nothing_any_more_is_unavailable(
    repository: ObjectSessionRepository, object_server: ObjectServer, new_session: Session
) -> None:
    repository.create(new_session)
    with object_server.meddled(lambda request, serve: refusal("503 Slow Down")):
        for call in (
            lambda: repository.update(FIRST, say("Hello")),
            lambda: repository.load(FIRST),
            lambda: repository.delete(FIRST),
            lambda: claim_session(repository, FIRST, "t1"),
            lambda: repository.create(new_session),
        ):
            with pytest.raises(StorageUnavailable):
                call()


def test_a_write_that_never_succeeds_is_given_up(
    repository: ObjectSessionRepository, object_server: ObjectServer, new_session: Session
) -> None:
    repository.create(new_session)

    def refuse(request: Request, serve: Serve) -> Answer:
        return refusal("503 Slow Down") if request.writes else serve()

    object_server.forget_requests()
    with object_server.meddled(refuse), pytest.raises(StorageUnavailable):
        repository.update(FIRST, say("Hello"))
    assert asked(object_server) == ["PUT", "GET", "PUT", "GET"]


def test_a_running_turn_waits_for_the_store_to_come_back(
    open_repository: OpenRepository,
    object_server: ObjectServer,
    new_session: Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster_app.objects.swap.RETRY_SECONDS", 0.01)
    repository = open_repository(retry_seconds=30)
    repository.create(new_session)
    claim_session(repository, FIRST, "t1")
    refused = 0

    def refuse_for_a_while(request: Request, serve: Serve) -> Answer | None:
        nonlocal refused
        refused += 1
        if refused > 20:
            return serve()
        return refusal("503 Slow Down") if refused % 2 else None

    with object_server.meddled(refuse_for_a_while):
        repository.update(FIRST, say("answer"), hold=hold_of(repository, "t1"), release=True)
    assert texts(repository.load(FIRST)) == ["answer"]
    assert repository.claim_of(FIRST) is None


def test_a_turn_that_waited_in_vain_saves_what_it_has_without_waiting_again(
    open_repository: OpenRepository,
    object_server: ObjectServer,
    new_session: Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster_app.objects.swap.RETRY_SECONDS", 0.01)
    repository = open_repository(retry_seconds=0.05)
    repository.create(new_session)
    claim_session(repository, FIRST, "t1")
    with object_server.meddled(lambda request, serve: refusal("503 Slow Down")):
        with pytest.raises(StorageUnavailable):
            repository.update(FIRST, say("answer"), hold=hold_of(repository, "t1"), release=True)
        object_server.forget_requests()
        with pytest.raises(StorageUnavailable):
            repository.update(FIRST, say("part"), hold=hold_of(repository, "t1"), release=True)
        assert asked(object_server) == ["PUT", "GET"]
    claim = repository.claim_of(FIRST)
    assert claim is not None
    assert claim.turn_id == "t1", "it is left to be sealed"


def test_a_store_that_takes_no_writes_is_unavailable_and_no_session_busy(
    open_repository: OpenRepository,
    object_server: ObjectServer,
    new_session: Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster_app.objects.swap.RETRY_SECONDS", 0.001)
    monkeypatch.setattr("cluster_app.objects.swap.LONGEST_PAUSE_SECONDS", 0.001)
    repository = open_repository(retry_seconds=600)
    repository.create(new_session)
    claim_session(repository, FIRST, "t1")

    def refuse(request: Request, serve: Serve) -> Answer:
        return refusal("503 Slow Down") if request.writes else serve()

    with object_server.meddled(refuse), pytest.raises(StorageUnavailable):
        repository.update(FIRST, say("answer"), hold=hold_of(repository, "t1"), release=True)
    assert repository.claim_of(FIRST) is not None, "it is left to be sealed"


@pytest.mark.parametrize("deleted_at", ["2026-01-15T10:00:00.000000+00:00", "", "long ago"])
def test_a_session_is_made_where_a_delete_died(
    open_repository: OpenRepository,
    object_store: ObjectStore,
    new_session: Session,
    deleted_at: str,
) -> None:
    object_store.put(KEY, tombstone(deleted_at=deleted_at))
    open_repository().create(new_session)
    assert open_repository().load(FIRST) == new_session


def test_no_session_is_made_where_one_is_just_being_deleted(
    open_repository: OpenRepository, object_store: ObjectStore, new_session: Session
) -> None:
    object_store.put(KEY, tombstone(deleted_at=utc_now()))
    with pytest.raises(SessionBusy):
        open_repository().create(new_session)
    with pytest.raises(SessionBusy):
        claim_session(open_repository(), FIRST, "t1", new=new_session)
    assert is_tombstone(object_store.get(KEY).data)


def test_a_session_that_is_deleted_while_its_id_is_taken_makes_room(
    open_repository: OpenRepository,
    object_server: ObjectServer,
    new_session: Session,
) -> None:
    open_repository().create(new_session)
    puts: list[int] = []

    def delete_after_refusal(request: Request, serve: Serve) -> Answer:
        answer = serve()
        if request.method == "PUT" and not puts:
            puts.append(1)
            open_repository().delete(FIRST)
        return answer

    with object_server.meddled(delete_after_refusal):
        open_repository().create(new_session)
    assert open_repository().load(FIRST) == new_session
