"""A turn that can't begin leaves its session, and what earlier turns left, as they were."""

import asyncio
import threading
from unittest.mock import Mock

import pytest

from sessions_app.errors import SessionBusy, StorageFull, StorageUnavailable
from sessions_app.messages import UserMessage
from sessions_app.session import append_messages, make_session
from tests.unit.chat.start.claims import NOW, choose, loaded


@pytest.fixture
def away(house, monkeypatch):
    """Let the questions of earlier turns be out of reach."""
    error = StorageUnavailable("Redis is away.")
    monkeypatch.setattr(house.confirmation_store, "withdraw_all", Mock(side_effect=error))


async def test_a_turn_that_can_not_begin_leaves_its_session_as_it_was(house, claim, away):
    session_id = await house.new_session()
    before = await loaded(house, session_id)

    with pytest.raises(StorageUnavailable):
        await claim(session_id)

    assert await loaded(house, session_id) == before
    assert await asyncio.to_thread(house.sessions.repository.claim_of, session_id) is None
    assert not await asyncio.to_thread(house.journal.turns, session_id)


async def test_a_message_that_was_said_before_stays_when_a_turn_can_not_begin(house, claim, away):
    session_id = await house.new_session()
    said = UserMessage(content="Hello!", message_id="1", timestamp=NOW)
    await asyncio.to_thread(
        house.sessions.repository.update,
        session_id,
        lambda session: append_messages(session, said, now=NOW),
    )

    with pytest.raises(StorageUnavailable):
        await claim(session_id)

    assert [each.message_id for each in (await loaded(house, session_id)).messages] == ["1"]


async def test_what_others_changed_stays_when_a_turn_can_not_begin(house, claim, monkeypatch):
    session_id = await house.new_session()

    def change_and_fail(_):
        choose(house, session_id, "other")
        raise StorageUnavailable("Redis is away.")

    monkeypatch.setattr(house.confirmation_store, "withdraw_all", change_and_fail)

    with pytest.raises(StorageUnavailable):
        await claim(session_id)

    left = await loaded(house, session_id)
    assert (left.metadata.model, list(left.messages)) == ("other", [])


async def test_a_session_that_was_made_for_a_turn_that_can_not_begin_is_marked(house, claim, away):
    session = make_session("0123456789", "m", now=NOW)

    with pytest.raises(StorageUnavailable):
        await claim(session.session_id, new=session)

    left = await loaded(house, session.session_id)
    assert (left.metadata.refused_at, list(left.messages)) == (left.metadata.updated_at, [])


async def test_a_store_that_does_not_answer_whether_it_took_a_claim_keeps_no_message(
    house, claim, monkeypatch
):
    session_id = await house.new_session()
    repository = house.sessions.repository
    make = repository.claim

    def lose_the_answer(*arguments, **more):
        make(*arguments, **more)
        raise StorageUnavailable("The store says nothing.")

    monkeypatch.setattr(repository, "claim", lose_the_answer)

    with pytest.raises(StorageUnavailable):
        await claim(session_id)

    assert not (await loaded(house, session_id)).messages
    assert await asyncio.to_thread(repository.claim_of, session_id) is None


@pytest.mark.parametrize(
    "error",
    [
        SessionBusy("0" * 10),
        StorageFull("The disk is full."),
        StorageUnavailable("The store says nothing."),
    ],
    ids=["lock", "disk", "store"],
)
async def test_the_client_is_told_why_a_turn_can_not_begin_and_the_next_one_can(
    house, claim, away, monkeypatch, error
):
    """Whatever keeps its claim from being given up: a lock that is not had in time, a disk.

    The message is said once all the same, and its claim is void (docs/decisions/0003).
    """
    session_id = await house.new_session()
    monkeypatch.setattr(house.sessions.repository, "update", Mock(side_effect=error))
    with pytest.raises(StorageUnavailable):
        await claim(session_id)
    monkeypatch.undo()

    claimed = await claim(session_id)

    assert [message.content for message in claimed.job.session.messages] == ["Hello!"]


def opening(house, monkeypatch, before_it_opens):
    """Call ``before_it_opens`` when a turn's journal is about to be opened."""
    make = house.journal.open

    def open_journal(session_id, turn_id, *, owner):
        before_it_opens(session_id)
        return make(session_id, turn_id, owner=owner)

    monkeypatch.setattr(house.journal, "open", open_journal)


async def test_a_session_is_claimed_before_its_journal_is_there_and_the_claim_lives(
    house, claim, monkeypatch
):
    session_id = await house.new_session()
    seen = []

    def look(session_id):
        assert not house.journal.turns(session_id)
        session, found = house.sessions.repository.load_claimed(session_id)
        seen.append((found.turn_id, found.alive, session.messages[-1].turn_id))
        assert house.remote.is_writing(session_id, found.turn_id)

    opening(house, monkeypatch, look)

    turn_id = (await claim(session_id)).job.turn_id

    assert seen == [(turn_id, True, turn_id)]


async def test_who_listens_to_a_turn_before_its_journal_is_there_waits_for_it(
    house, claim, monkeypatch
):
    session_id = await house.new_session()
    found, opened = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait(_):
        loop.call_soon_threadsafe(found.set)
        assert opened.wait(20)

    opening(house, monkeypatch, wait)
    claiming = asyncio.create_task(claim(session_id))
    await found.wait()
    turn_id = (await house.remote.running(session_id)).turn_id
    listening = asyncio.create_task(house.remote.listen(session_id, turn_id))
    asked = asyncio.Event()
    claim_of = house.sessions.repository.claim_of

    def claim_was_asked_for(session_id):
        loop.call_soon_threadsafe(asked.set)
        return claim_of(session_id)

    monkeypatch.setattr(house.sessions.repository, "claim_of", claim_was_asked_for)
    await asked.wait()
    opened.set()
    claimed = await claiming
    claimed.stream.emit([claimed.job.first_event("m1")])

    follower = await listening
    assert [entry.event for entry in await follower.next_entries()][-1] == "turn_started"
    follower.close()


async def test_a_journal_that_can_not_be_opened_leaves_the_session_as_it_was(
    house, claim, monkeypatch
):
    session_id = await house.new_session()
    before = await loaded(house, session_id)
    monkeypatch.setattr(house.journal, "open", Mock(side_effect=StorageFull("The disk is full.")))

    with pytest.raises(StorageFull):
        await claim(session_id)

    assert await loaded(house, session_id) == before
    assert await asyncio.to_thread(house.sessions.repository.claim_of, session_id) is None


@pytest.mark.parametrize("error", [SessionBusy("0" * 10), StorageUnavailable("It is away.")])
async def test_a_claim_without_a_journal_that_can_not_be_given_up_is_released_later(
    house, claim, monkeypatch, error
):
    session_id = await house.new_session()
    repository = house.sessions.repository
    monkeypatch.setattr(house.journal, "open", Mock(side_effect=StorageFull("The disk is full.")))
    monkeypatch.setattr(repository, "update", Mock(side_effect=error))
    with pytest.raises(StorageFull):
        await claim(session_id)
    monkeypatch.undo()
    with pytest.raises(SessionBusy):
        await claim(session_id)

    await asyncio.to_thread(house.recovery.seal_all)

    claimed = await claim(session_id)
    assert [message.content for message in claimed.job.session.messages] == ["Hello!"]


async def test_a_session_that_can_not_be_written_is_not_claimed(house, claim, monkeypatch):
    session_id = await house.new_session()
    full = Mock(side_effect=StorageFull("The disk is full."))
    monkeypatch.setattr("sessions_app.store.session_files.write_atomically", full)

    with pytest.raises(StorageFull):
        await claim(session_id)

    assert full.called
    assert await asyncio.to_thread(house.sessions.repository.claim_of, session_id) is None
