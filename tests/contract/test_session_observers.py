"""Repositories tell of what changed, and of nothing else."""

from pathlib import Path
from typing import Any

import pytest

from cluster_app.objects.repository import ObjectSessionRepository
from sessions_app.errors import InvalidMessageIndex, SessionBusy, SessionNotFound
from sessions_app.ids_and_clock import utc_now
from sessions_app.session import Session, make_session, with_metadata
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.observer import SessionObserver
from sessions_app.store.repository import SessionRepository
from tests.claims import hold_of
from tests.contract.memory_index import MemorySessionIndex
from tests.contract.memory_repository import MemoryOwners

SESSION, TURN = "a1b2c3d4e5", "0199f3a2b4c50000abcd"


class Told(SessionObserver):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    def created(self, session_id: str, /) -> None:
        self.calls.append(("created", session_id))

    def changed(self, session_id: str, /) -> None:
        self.calls.append(("changed", session_id))

    def deleted(self, session_id: str, /) -> None:
        self.calls.append(("deleted", session_id))

    def turn_started(self, session_id: str, turn_id: str, /) -> None:
        self.calls.append(("turn_started", session_id, turn_id))

    def turn_ended(self, session_id: str, turn_id: str, /) -> None:
        self.calls.append(("turn_ended", session_id, turn_id))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def owners() -> MemoryOwners:
    return MemoryOwners()


@pytest.fixture(params=["files", "objects"])
def repository(
    request: pytest.FixtureRequest, tmp_path: Path, told: Told, owners: MemoryOwners
) -> SessionRepository:
    if request.param == "files":
        return FileSessionRepository(tmp_path, owners=owners, observer=told)
    return ObjectSessionRepository(
        request.getfixturevalue("object_store"),
        deleted=None,
        owners=owners,
        index=MemorySessionIndex(),
        observer=told,
    )


def new() -> Session:
    return make_session(SESSION, "m", now=utc_now())


def titled(session: Session) -> Session:
    return with_metadata(session, now=utc_now(), title="A title")


def claim(repository: SessionRepository, **options: Any) -> None:
    owner = repository.owners.mine()
    repository.claim(SESSION, TURN, owner=owner, change=lambda found: (found, None), **options)


def test_it_tells_what_becomes_of_a_session(repository: SessionRepository, told: Told) -> None:
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


def test_it_tells_of_turns_and_how_they_end(repository: SessionRepository, told: Told) -> None:
    claim(repository, new=new())
    repository.update(SESSION, titled, hold=hold_of(repository, TURN))
    repository.update(SESSION, titled, hold=hold_of(repository, TURN), release=True)
    claim(repository)
    repository.release(SESSION, hold_of(repository, TURN))
    assert told.calls == [
        ("created", SESSION),
        ("turn_started", SESSION, TURN),
        ("changed", SESSION),
        ("turn_ended", SESSION, TURN),
        ("turn_started", SESSION, TURN),
        ("turn_ended", SESSION, TURN),
    ]


def test_it_tells_of_a_dead_turn_that_others_ended(
    repository: SessionRepository, told: Told, owners: MemoryOwners
) -> None:
    claim(repository, new=new())
    owners.condemn()
    told.calls.clear()
    repository.update_idle(SESSION, titled, recover=lambda session, _claim: session)
    assert told.calls == [("turn_ended", SESSION, TURN), ("changed", SESSION)]


def test_it_tells_of_a_dead_turn_although_the_change_after_it_was_refused(
    repository: SessionRepository, told: Told, owners: MemoryOwners
) -> None:
    def refuse(session: Session) -> Session:
        raise InvalidMessageIndex("There is none.")

    claim(repository, new=new())
    owners.condemn()
    told.calls.clear()
    with pytest.raises(InvalidMessageIndex):
        repository.update_idle(SESSION, refuse, recover=lambda session, _claim: session)
    assert told.calls == [("turn_ended", SESSION, TURN)]


def test_it_tells_nothing_of_what_was_refused_or_only_read(
    repository: SessionRepository, told: Told
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
