"""The contract of claims: one turn at a time writes a session, and a dead one is recovered."""

from pathlib import Path

import pytest

from sessions_app.errors import (
    SessionBusy,
    SessionExists,
    SessionNotFound,
    ValidationFailed,
)
from sessions_app.session import Session, with_metadata
from sessions_app.store.repository import Claim, SessionRepository
from tests.claims import claim_session, hold_of
from tests.contract.memory_repository import MemoryOwners
from tests.contract.sessions import FIRST, LATER, SECOND, new_session, say, texts


def test_a_claimed_session_is_busy_for_everybody_else(repository: SessionRepository) -> None:
    repository.create(new_session())
    assert claim_session(repository, FIRST, "t1") == new_session()
    for call in (
        lambda: claim_session(repository, FIRST, "t2"),
        lambda: repository.update_idle(FIRST, say("Hello")),
        lambda: repository.update(FIRST, say("Hello"), hold=hold_of(repository, "t2")),
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
    repository.update(FIRST, say("Hello"), hold=hold_of(repository, "t1"))
    repository.update(FIRST, lambda session: with_metadata(session, now=LATER, model="other"))
    session = repository.load(FIRST)
    assert texts(session) == ["Hello"]
    assert session.metadata.model == "other"


def test_a_released_session_can_be_claimed_again(repository: SessionRepository) -> None:
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    repository.release(FIRST, hold_of(repository, "another turn"))
    assert repository.claim_of(FIRST) is not None
    repository.release(FIRST, hold_of(repository, "t1"))
    repository.release(FIRST, hold_of(repository, "t1"))
    assert repository.claim_of(FIRST) is None
    with pytest.raises(SessionBusy):
        repository.update(FIRST, say("too late"), hold=hold_of(repository, "t1"))
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
    repository.update(FIRST, say("Bye"), hold=hold_of(repository, "t1"), release=True)
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
    repository.update(FIRST, say("Bye"), hold=hold_of(repository, "t2"), release=True)
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
        repository.update(FIRST, say("too late"), hold=hold_of(repository, "t1"))
    assert texts(repository.load(FIRST)) == ["sealed t1"]


def test_a_turn_that_another_process_took_over_is_not_written_by_the_first_one(
    repository: SessionRepository, tmp_path: Path
) -> None:
    """The first one may only have been frozen: the turn's id alone would let it write."""
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    first = hold_of(repository, "t1")
    condemn(repository, tmp_path / "sessions")
    claim_session(repository, FIRST, "t1", recover=seal)
    assert hold_of(repository, "t1") != first
    with pytest.raises(SessionBusy):
        repository.update(FIRST, say("too late"), hold=first)
    repository.release(FIRST, first)
    repository.update(FIRST, say("goes on"), hold=hold_of(repository, "t1"))
    assert texts(repository.load(FIRST)) == ["sealed t1", "goes on"]


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
    repository.update(
        FIRST, lambda session: session, hold=hold_of(repository, "t1"), begun=["call_1"]
    )
    assert repository.load(FIRST) == new_session()
    repository.update(
        FIRST, lambda session: session, hold=hold_of(repository, "t1"), begun=["call_2", "call_3"]
    )
    claim = repository.claim_of(FIRST)
    assert claim is not None
    kept = ["call_1", "call_2", "call_3"] if repository.keeps_begun else []
    assert list(claim.begun) == kept, "what keeps none leaves them to the journal"


def test_calls_that_begin_are_kept_with_what_is_saved_until_the_turn_lets_go(
    repository: SessionRepository,
) -> None:
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    repository.update(
        FIRST, say("asked for a tool"), hold=hold_of(repository, "t1"), begun=["call_1"]
    )
    repository.update(FIRST, say("result"), hold=hold_of(repository, "t1"))
    claim = repository.claim_of(FIRST)
    assert claim is not None
    assert list(claim.begun) == (["call_1"] if repository.keeps_begun else [])
    repository.update(FIRST, say("done"), hold=hold_of(repository, "t1"), release=True)
    claim_session(repository, FIRST, "t2")
    claim = repository.claim_of(FIRST)
    assert claim is not None
    assert list(claim.begun) == []


def test_a_dead_turn_is_recovered_with_the_calls_that_had_begun(
    repository: SessionRepository, tmp_path: Path
) -> None:
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    repository.update(
        FIRST, lambda session: session, hold=hold_of(repository, "t1"), begun=["call_1"]
    )
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


def test_a_claim_is_given_to_another_process_and_kept_from_its_first(
    repository: SessionRepository,
) -> None:
    repository.create(new_session())
    claim_session(repository, FIRST, "t1")
    first, before = hold_of(repository, "t1"), repository.claim_of(FIRST)
    repository.update(FIRST, lambda found: found, hold=first, owner="another")
    after = repository.claim_of(FIRST)
    assert before
    assert after
    assert (after.turn_id, after.owner, after.started_at) == ("t1", "another", before.started_at)
    for write in (say("too late"), lambda found: found):
        with pytest.raises(SessionBusy):
            repository.update(FIRST, write, hold=first)
    with pytest.raises(SessionBusy):  # somebody else was faster
        repository.update(FIRST, lambda found: found, hold=first, owner="a third")
    repository.update(FIRST, say("goes on"), hold=after.hold, release=True)
    assert repository.claim_of(FIRST) is None
