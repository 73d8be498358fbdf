"""The contract of every session repository, whatever it keeps sessions in."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sessions_app.errors import (
    InvalidMessageIndex,
    SessionBusy,
    SessionExists,
    SessionNotFound,
    ValidationFailed,
)
from sessions_app.messages import UserMessage
from sessions_app.session import Session, SessionMetadata, append_messages, with_metadata
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.objects.repository import ObjectSessionRepository
from sessions_app.store.repository import Claim, SessionRepository
from tests.claims import claim_session
from tests.contract.memory_hints import MemoryClaimHints
from tests.contract.memory_index import MemorySessionIndex
from tests.contract.memory_repository import MemoryOwners, MemorySessionRepository

NOW = "2026-11-21T10:00:00.000000+00:00"
LATER = "2026-11-21T11:00:00.000000+00:00"
FIRST, SECOND = "a1b2c3d4e5", "0123456789"


@pytest.fixture(params=["files", "files that keep what begins", "memory", "objects"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> SessionRepository:
    if request.param == "memory":
        return MemorySessionRepository()
    if request.param == "objects":
        return ObjectSessionRepository(
            (objects := request.getfixturevalue("object_store")).under("sessions"),
            deleted=objects.under("deleted"),
            owners=MemoryOwners(),
            hints=MemoryClaimHints(),
            index=MemorySessionIndex(),
        )
    return FileSessionRepository(tmp_path / "sessions", keeps_begun=request.param != "files")


def new_session(session_id: str = FIRST, *, updated_at: str = NOW) -> Session:
    return Session(
        metadata=SessionMetadata(
            session_id=session_id, model="m", created_at=NOW, updated_at=updated_at
        )
    )


def say(text: str) -> Callable[[Session], Session]:
    message = UserMessage(content=text, message_id=text, timestamp=NOW)
    return lambda session: append_messages(session, message, now=LATER)


def texts(session: Session) -> list[str]:
    return [message.content for message in session.messages]


def test_a_session_is_kept_as_it_is(repository: SessionRepository) -> None:
    session = say("Hello")(new_session())
    repository.create(session)
    assert repository.load(FIRST) == session


def test_an_id_is_taken_once(repository: SessionRepository) -> None:
    repository.create(new_session())
    with pytest.raises(SessionExists):
        repository.create(say("Hello")(new_session()))
    assert texts(repository.load(FIRST)) == []


@pytest.mark.parametrize(
    "session_id",
    [SECOND, "", "..", "../a1b2c3d4e5", "A1B2C3D4E5", "a1b2c3d4e5\n", "a1b2c3d4e", "a1b2c3d4e5f"],
)
def test_an_unknown_or_malformed_id_is_not_found(
    repository: SessionRepository, session_id: str
) -> None:
    repository.create(new_session())
    for call in (
        lambda: repository.load(session_id),
        lambda: repository.update(session_id, say("Hello")),
        lambda: repository.update_idle(session_id, say("Hello")),
        lambda: repository.delete(session_id),
        lambda: claim_session(repository, session_id, "t1"),
    ):
        with pytest.raises(SessionNotFound):
            call()


def test_an_update_returns_what_is_kept(repository: SessionRepository) -> None:
    repository.create(new_session())
    updated = repository.update(FIRST, say("Hello"))
    assert texts(updated) == ["Hello"]
    assert updated.metadata.message_count == 1
    assert repository.load(FIRST) == updated


def test_counts_fit_even_where_a_change_forgot_them(repository: SessionRepository) -> None:
    repository.create(new_session())
    message = UserMessage(content="Hello", message_id="1", timestamp=NOW)
    updated = repository.update(
        FIRST, lambda session: Session(metadata=session.metadata, messages=(message,))
    )
    assert (updated.metadata.message_count, updated.metadata.preview) == (1, "Hello")
    assert repository.load(FIRST) == updated


@pytest.mark.parametrize("update", ["update", "update_idle"])
def test_a_change_that_fails_changes_nothing(repository: SessionRepository, update: str) -> None:
    repository.create(new_session())

    def fail(session: Session) -> Session:
        raise InvalidMessageIndex("no")

    with pytest.raises(InvalidMessageIndex):
        getattr(repository, update)(FIRST, fail)
    assert repository.load(FIRST) == new_session()
    repository.update(FIRST, say("the lock is free again"))


def test_a_deleted_session_is_gone(repository: SessionRepository) -> None:
    repository.create(new_session())
    repository.delete(FIRST)
    with pytest.raises(SessionNotFound):
        repository.load(FIRST)
    assert repository.list().sessions == ()


def test_the_list_is_ordered_by_the_last_change(repository: SessionRepository) -> None:
    assert repository.list().sessions == ()
    repository.create(new_session(FIRST, updated_at=NOW))
    repository.create(new_session(SECOND, updated_at=LATER))
    assert [item.session_id for item in repository.list().sessions] == [SECOND, FIRST]
    after = "2026-11-21T12:00:00.000000+00:00"
    repository.update(FIRST, lambda session: with_metadata(session, now=after, model="other"))
    listed = repository.list().sessions
    assert [item.session_id for item in listed] == [FIRST, SECOND]
    assert listed[0].model == "other"


def test_the_list_shows_every_change_at_once(repository: SessionRepository) -> None:
    repository.create(new_session())
    for number in range(20):
        repository.update(FIRST, say(f"{number:03}"))
        assert repository.list().sessions[0].message_count == number + 1


def test_threads_lose_nothing(repository: SessionRepository) -> None:
    repository.create(new_session())

    def write(name: str) -> None:
        for number in range(10):
            repository.update(FIRST, say(f"{name}{number}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts(repository.load(FIRST))) == 40


def test_a_claimed_session_is_busy_for_everybody_else(repository: SessionRepository) -> None:
    repository.create(new_session())
    assert claim_session(repository, FIRST, "t1") == new_session()
    for call in (
        lambda: claim_session(repository, FIRST, "t2"),
        lambda: repository.update_idle(FIRST, say("Hello")),
        lambda: repository.update(FIRST, say("Hello"), turn_id="t2"),
        lambda: repository.delete(FIRST),
    ):
        with pytest.raises(SessionBusy) as raised:
            call()
        assert raised.value.details["turn_id"] == "t1"
    assert texts(repository.load(FIRST)) == []


def test_the_owner_writes_and_settings_merge_while_a_turn_runs(
    repository: SessionRepository,
) -> None:
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    repository.update(FIRST, say("Hello"), turn_id="t1")
    repository.update(FIRST, lambda session: with_metadata(session, now=LATER, model="other"))
    session = repository.load(FIRST)
    assert texts(session) == ["Hello"]
    assert session.metadata.model == "other"


def test_a_released_session_can_be_claimed_again(repository: SessionRepository) -> None:
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    repository.release(FIRST, "another turn")
    assert repository.claim_of(FIRST) is not None
    repository.release(FIRST, "t1")
    repository.release(FIRST, "t1")
    assert repository.claim_of(FIRST) is None
    with pytest.raises(SessionBusy):
        repository.update(FIRST, say("too late"), turn_id="t1")
    claim_session(repository, FIRST, "t2")


def test_a_process_holds_many_claims(repository: SessionRepository) -> None:
    for session_id in (FIRST, SECOND):
        repository.create(new_session(session_id))
        claim_session(repository, session_id, f"turn-of-{session_id}")
    claims = repository.claims()
    assert {claim.session_id: claim.turn_id for claim in claims} == {
        FIRST: f"turn-of-{FIRST}",
        SECOND: f"turn-of-{SECOND}",
    }
    assert all(claim.alive and claim.started_at for claim in claims)
    assert repository.claim_of(FIRST) in claims


@pytest.mark.parametrize("is_new", [False, True])
def test_a_claim_hands_on_what_the_change_that_counts_returned(
    repository: SessionRepository, is_new: bool
) -> None:
    if not is_new:
        repository.create(new_session())
    calls: list[int] = []

    def open_turn(session: Session) -> tuple[Session, tuple[int, Session]]:
        calls.append(len(calls))
        return say(f"call {calls[-1]}")(session), (calls[-1], session)

    session, (call, before) = repository.claim(
        FIRST,
        "t1",
        owner=repository.owners.mine(),
        change=open_turn,
        new=new_session() if is_new else None,
    )

    assert texts(session) == texts(repository.load(FIRST)) == [f"call {call}"]
    assert call == calls[-1]
    assert before == new_session()


def test_a_new_session_is_made_with_its_claim(repository: SessionRepository) -> None:
    made = claim_session(repository, FIRST, "t1", change=say("Hello"), new=new_session())
    assert texts(made) == ["Hello"]
    assert repository.load(FIRST) == made
    claim = repository.claim_of(FIRST)
    assert claim is not None
    assert (claim.turn_id, claim.alive) == ("t1", True)
    repository.update(FIRST, say("Bye"), turn_id="t1", release=True)
    assert texts(repository.load(FIRST)) == ["Hello", "Bye"]


def test_a_new_session_takes_no_others_place(repository: SessionRepository) -> None:
    repository.create(new_session())
    with pytest.raises(SessionExists):
        claim_session(repository, FIRST, "t1", change=say("Hello"), new=new_session())
    assert repository.load(FIRST) == new_session()
    assert repository.claim_of(FIRST) is None


def test_a_new_session_whose_change_is_refused_is_not_made(repository: SessionRepository) -> None:
    def refuse(session: Session) -> Session:
        raise ValidationFailed("no", field="message")

    with pytest.raises(ValidationFailed):
        claim_session(repository, FIRST, "t1", change=refuse, new=new_session())
    assert repository.list().sessions == ()
    assert repository.claim_of(FIRST) is None


def test_nothing_is_recovered_while_nothing_died(repository: SessionRepository) -> None:
    repository.create(new_session())

    def recover(session: Session, claim: object) -> Session:
        raise AssertionError(claim)

    repository.update_idle(FIRST, say("Hello"), recover=recover)
    claim_session(repository, FIRST, "t1", recover=recover)


def condemn(repository: SessionRepository, directory: Path) -> None:
    """Let this process lose its claims, as if it had died."""
    if isinstance(repository.owners, MemoryOwners):
        repository.owners.condemn()
    else:
        owner = repository.owners.mine()
        (directory / ".claims" / "workers" / f"{owner}.lock").unlink()


def seal(session: Session, claim: Claim) -> Session:
    return say(f"sealed {claim.turn_id}")(session)


def test_a_dead_turn_is_recovered_once_before_anything_else(
    repository: SessionRepository, tmp_path: Path
) -> None:
    repository.create(new_session())
    first = repository.owners.mine()
    claim_session(repository, FIRST, "t1", owner=first)
    condemn(repository, tmp_path / "sessions")
    second = repository.owners.mine()
    assert (repository.owners.lives(first), repository.owners.lives(second)) == (False, True)
    claim = repository.claim_of(FIRST)
    assert claim is not None
    assert (claim.owner, claim.alive) == (first, False)
    session = claim_session(
        repository, FIRST, "t2", owner=second, recover=seal, change=say("Hello")
    )
    assert texts(session) == ["sealed t1", "Hello"]
    assert repository.load(FIRST) == session
    repository.update(FIRST, say("Bye"), turn_id="t2", release=True)
    assert texts(repository.update_idle(FIRST, say("?"), recover=seal))[-2:] == ["Bye", "?"]


def test_without_recovery_a_dead_turns_claim_stays(
    repository: SessionRepository, tmp_path: Path
) -> None:
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    condemn(repository, tmp_path / "sessions")
    repository.owners.mine()
    assert texts(repository.update_idle(FIRST, say("Hello"))) == ["Hello"]
    assert [claim.turn_id for claim in repository.claims()] == ["t1"]


def test_an_owner_that_was_given_up_can_not_write(
    repository: SessionRepository, tmp_path: Path
) -> None:
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    condemn(repository, tmp_path / "sessions")
    claim_session(repository, FIRST, "t2", recover=seal)
    with pytest.raises(SessionBusy):
        repository.update(FIRST, say("too late"), turn_id="t1")
    assert texts(repository.load(FIRST)) == ["sealed t1"]


def test_a_change_that_is_made_again_is_made_of_the_newest_session(
    repository: SessionRepository,
) -> None:
    """A change may be called more than once; what is kept is made by the last call alone."""
    repository.create(new_session())
    seen: list[int] = []

    def count(session: Session) -> Session:
        seen.append(len(session.messages))
        return say(f"after {len(session.messages)}")(session)

    repository.update(FIRST, count)
    repository.update_idle(FIRST, count)
    session = claim_session(repository, FIRST, "t1", change=count)
    assert texts(session) == texts(repository.load(FIRST)) == ["after 0", "after 1", "after 2"]
    assert sorted(set(seen)) == [0, 1, 2]


def test_calls_that_begin_are_no_change_of_the_session(repository: SessionRepository) -> None:
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    repository.update(FIRST, lambda session: session, turn_id="t1", begun=["call_1"])
    assert repository.load(FIRST) == new_session()
    repository.update(FIRST, lambda session: session, turn_id="t1", begun=["call_2", "call_3"])
    claim = repository.claim_of(FIRST)
    assert claim is not None
    kept = ["call_1", "call_2", "call_3"] if repository.keeps_begun else []
    assert list(claim.begun) == kept, "what keeps none leaves them to the journal"


def test_calls_that_begin_are_kept_with_what_is_saved_until_the_turn_lets_go(
    repository: SessionRepository,
) -> None:
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    repository.update(FIRST, say("asked for a tool"), turn_id="t1", begun=["call_1"])
    repository.update(FIRST, say("result"), turn_id="t1")
    claim = repository.claim_of(FIRST)
    assert claim is not None
    assert list(claim.begun) == (["call_1"] if repository.keeps_begun else [])
    repository.update(FIRST, say("done"), turn_id="t1", release=True)
    claim_session(repository, FIRST, "t2")
    claim = repository.claim_of(FIRST)
    assert claim is not None
    assert list(claim.begun) == []


def test_a_dead_turn_is_recovered_with_the_calls_that_had_begun(
    repository: SessionRepository, tmp_path: Path
) -> None:
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    repository.update(FIRST, lambda session: session, turn_id="t1", begun=["call_1"])
    condemn(repository, tmp_path / "sessions")
    repository.owners.mine()
    found: list[Claim] = []

    def recover(session: Session, claim: Claim) -> Session:
        found.append(claim)
        return session

    repository.update_idle(FIRST, lambda session: session, recover=recover)
    assert {tuple(claim.begun) for claim in found} == {
        ("call_1",) if repository.keeps_begun else ()
    }
    assert repository.claim_of(FIRST) is None


def test_a_session_is_read_with_its_claim(repository: SessionRepository) -> None:
    repository.create(new_session())
    assert repository.load_claimed(FIRST) == (new_session(), None)
    claim_session(repository, FIRST, "t1")
    session, claim = repository.load_claimed(FIRST)
    assert (session, claim) == (new_session(), repository.claim_of(FIRST))
    for session_id in (SECOND, "../x"):
        with pytest.raises(SessionNotFound):
            repository.load_claimed(session_id)


def test_a_check_keeps_the_session_as_it_is(repository: SessionRepository) -> None:
    repository.create(say("Hello")(new_session()))
    with pytest.raises(IndexError):
        repository.delete(FIRST, check=lambda session: session.messages[1])
    assert texts(repository.load(FIRST)) == ["Hello"]
    repository.delete(FIRST, check=texts)
    with pytest.raises(SessionNotFound):
        repository.load(FIRST)


def test_a_deleted_session_is_remembered(repository: SessionRepository) -> None:
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    repository.release(FIRST, "t1")
    assert repository.deleted_at(FIRST) is None
    repository.delete(FIRST)
    assert repository.deleted_at(FIRST) is not None


def test_what_is_recalled_is_a_session_that_was_read_or_nothing(
    repository: SessionRepository,
) -> None:
    assert repository.recall(FIRST) is None
    assert repository.recall("../x") is None
    session = new_session()
    repository.create(session)
    loaded = repository.load(FIRST)
    assert repository.recall(FIRST) in (None, loaded)
