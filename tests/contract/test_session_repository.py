"""The contract of every session repository, whatever it keeps sessions in."""

import threading

import pytest

from sessions_app.errors import (
    InvalidMessageIndex,
    SessionExists,
    SessionNotFound,
)
from sessions_app.messages import UserMessage
from sessions_app.session import Session, with_metadata
from sessions_app.store.repository import SessionRepository
from tests.claims import claim_session, hold_of
from tests.contract.sessions import FIRST, LATER, NOW, SECOND, new_session, say, texts


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
    repository.release(FIRST, hold_of(repository, "t1"))
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
