"""A repository that tells of what changed, and of nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from sessions_app.errors import SessionBusy, SessionNotFound
from sessions_app.ids_and_clock import utc_now
from sessions_app.session import Session, make_session, with_metadata
from sessions_app.store.observed import ObservedRepository
from tests.contract.memory_repository import MemoryOwners, MemorySessionRepository

SESSION, TURN = "a1b2c3d4e5", "0199f3a2b4c50000abcd"


class Told:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: self.calls.append((name, *args))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def owners() -> MemoryOwners:
    return MemoryOwners()


@pytest.fixture
def repository(told: Told, owners: MemoryOwners) -> ObservedRepository:
    return ObservedRepository(MemorySessionRepository(owners=owners), told)


def new() -> Session:
    return make_session(SESSION, "m", now=utc_now())


def titled(session: Session) -> Session:
    return with_metadata(session, now=utc_now(), title="A title")


def claim(repository: ObservedRepository, **options: Any) -> None:
    owner = repository.owners.mine()
    repository.claim(SESSION, TURN, owner=owner, change=lambda found: (found, None), **options)


def test_it_tells_what_becomes_of_a_session(repository: ObservedRepository, told: Told) -> None:
    repository.create(new())
    repository.update(SESSION, titled)
    repository.update_idle(SESSION, titled)
    repository.delete(SESSION)
    assert told.calls == [
        ("created", SESSION),
        ("changed", SESSION),
        ("changed", SESSION),
        ("deleted", SESSION),
    ]


def test_it_tells_of_turns_and_how_they_end(repository: ObservedRepository, told: Told) -> None:
    claim(repository, new=new())
    repository.update(SESSION, titled, turn_id=TURN)
    repository.update(SESSION, titled, turn_id=TURN, release=True)
    claim(repository)
    repository.release(SESSION, TURN)
    assert told.calls == [
        ("created", SESSION),
        ("turn_started", SESSION, TURN),
        ("changed", SESSION),
        ("turn_ended", SESSION, TURN),
        ("turn_started", SESSION, TURN),
        ("turn_ended", SESSION, TURN),
    ]


def test_it_tells_of_a_dead_turn_that_others_ended(
    repository: ObservedRepository, told: Told, owners: MemoryOwners
) -> None:
    claim(repository, new=new())
    owners.condemn()
    told.calls.clear()
    repository.update_idle(SESSION, titled, recover=lambda session, _claim: session)
    assert told.calls == [("turn_ended", SESSION, TURN)]


def test_it_tells_nothing_of_what_was_refused_or_only_read(
    repository: ObservedRepository, told: Told
) -> None:
    claim(repository, new=new())
    told.calls.clear()
    for refused in (repository.delete, lambda each: repository.update_idle(each, titled)):
        with pytest.raises(SessionBusy):
            refused(SESSION)
    with pytest.raises(SessionNotFound):
        repository.update("ffffffffff", titled)
    repository.load(SESSION)
    repository.look(SESSION)
    repository.claims()
    assert len(repository.list().sessions) == 1
    assert told.calls == []
