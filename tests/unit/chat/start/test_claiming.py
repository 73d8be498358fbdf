"""A turn's model and tools are looked up first; then its session is claimed, by a pure function."""

import asyncio
from contextlib import suppress

import pytest

from chat.errors import NothingToContinue
from chat.start.claiming import MOST_LOOK_UPS
from chat.start.preparation import ChatPreparation
from chat.start.turn_request import TurnRequest
from models_app.errors import ModelNotFound
from sessions_app.errors import SessionBusy, SessionNotFound, StorageUnavailable
from sessions_app.messages import UserMessage
from sessions_app.session import append_messages, make_session
from sessions_app.store.file_repository import FileSessionRepository
from tests.claims import claim_session
from tests.contract.memory_journal import MemoryJournal
from tests.unit.chat.start.claims import HELLO, NOW, choose, claimer_of


async def test_a_known_session_with_a_known_model_is_claimed_in_one_visit(
    house, claim, models, threads
):
    session_id = await house.new_session()

    claimed = await claim(session_id)

    assert (threads.visits, models.asked) == (1, [])
    assert claimed.job.model == "m"


async def test_a_new_session_is_made_in_the_visit_that_claims_it(house, claim, models, threads):
    session = make_session("0123456789", "m", now=NOW)

    claimed = await claim(session.session_id, new=session)

    assert (threads.visits, models.asked) == (1, [])
    made = await asyncio.to_thread(house.sessions.get, session.session_id)
    assert made == claimed.job.session
    [said], [message] = made.messages, claimed.job.messages
    assert (said.content, said.turn_id) == (message.content, claimed.job.turn_id)


async def test_a_new_session_with_a_missing_model_is_not_made(house, claim):
    session = make_session("0123456789", "missing", now=NOW)

    with pytest.raises(ModelNotFound):
        await claim(session.session_id, new=session)

    assert not (await asyncio.to_thread(house.sessions.list)).sessions


async def test_a_provider_is_asked_before_the_session_is_locked(house, claim, models):
    models.known = set()
    session_id = await house.new_session()
    models.while_asking = lambda: choose(house, session_id, "m")  # it would wait for the lock

    claimed = await claim(session_id)

    assert models.asked == ["m"]
    assert claimed.job.model == "m"


async def test_settings_that_change_meanwhile_are_looked_up_once_more(house, claim, models):
    models.known = set()
    session_id = await house.new_session()
    models.while_asking = lambda: choose(house, session_id, "other")

    claimed = await claim(session_id)

    assert models.asked == ["m", "other"]
    assert (claimed.job.model, claimed.job.session.metadata.model) == ("other", "other")


async def test_a_session_that_another_process_changed_is_looked_up_as_it_is(house, claim, models):
    models.known = {"m", "other"}
    session_id = await house.new_session()
    await asyncio.to_thread(choose, house, session_id, "other")

    assert (await claim(session_id)).job.model == "other"


async def test_a_session_that_never_stops_changing_is_busy_and_not_claimed(house, claim, models):
    models.known = set()
    session_id = await house.new_session()
    models.while_asking = lambda: choose(house, session_id, f"other{len(models.asked)}")

    with pytest.raises(SessionBusy):
        await claim(session_id)

    assert len(models.asked) == MOST_LOOK_UPS
    assert await asyncio.to_thread(house.sessions.repository.claim_of, session_id) is None
    assert not await asyncio.to_thread(house.journal.turns, session_id)


async def test_a_busy_session_is_refused_before_a_provider_is_asked(house, claim, models):
    models.known = set()
    session_id = await house.new_session(model="missing")
    repository = house.sessions.repository
    owner = await asyncio.to_thread(repository.owners.mine)
    await asyncio.to_thread(claim_session, repository, session_id, "0" * 20, owner=owner)

    with pytest.raises(SessionBusy):
        await claim(session_id)
    assert models.asked == []


async def test_a_model_that_is_not_there_refuses_the_turn(house, claim, models):
    session_id = await house.new_session(model="missing")

    with pytest.raises(ModelNotFound):
        await claim(session_id)


@pytest.mark.parametrize("session_id", ["0123456789", "../../etc"])
async def test_a_session_that_is_not_there_is_not_found(claim, session_id):
    with pytest.raises(SessionNotFound):
        await claim(session_id)


async def test_what_another_process_said_can_be_answered(house, claim):
    """The session as this process remembers it has nothing to answer."""
    session_id = await house.new_session()
    with pytest.raises(NothingToContinue):
        await claim(session_id, TurnRequest())
    said = UserMessage(content="Hi", message_id="1", timestamp=NOW)
    await asyncio.to_thread(
        FileSessionRepository(house.sessions_dir).update,
        session_id,
        lambda session: append_messages(session, said, now=NOW),
    )

    claimed = await claim(session_id, TurnRequest())

    assert [message.content for message in claimed.job.session.messages] == ["Hi"]


async def test_a_change_that_is_made_twice_opens_one_turn(house, claim, monkeypatch):
    """As a store without locks makes it, when another process was faster."""
    session_id = await house.new_session()
    repository = house.sessions.repository
    make = repository.claim

    def twice(session_id, turn_id, *, change, **more):
        change(repository.load(session_id))
        return make(session_id, turn_id, change=change, **more)

    monkeypatch.setattr(repository, "claim", twice)

    claimed = await claim(session_id)

    assert await asyncio.to_thread(house.journal.turns, session_id) == [claimed.job.turn_id]
    assert [message.content for message in claimed.job.session.messages] == ["Hello!"]


@pytest.fixture
def twice(house, monkeypatch):
    """Make each change again that was refused, as a store does that may know an old session."""
    repository = house.sessions.repository
    make = repository.claim

    def claim(session_id, turn_id, *, change, **more):
        with suppress(Exception):
            change(repository.load(session_id))
        return make(session_id, turn_id, change=change, **more)

    monkeypatch.setattr(repository, "claim", claim)


class Unreachable(MemoryJournal):
    """A journal that fails when it is asked for the first time, and has done it all the same."""

    def open(self, session_id, turn_id, *, owner):
        super().open(session_id, turn_id, owner=owner)
        raise StorageUnavailable("Redis is away.")


async def test_a_journal_that_may_have_been_opened_is_not_opened_again(house, preparer, twice):
    """The change is made again where it may have been refused because of a session of long ago."""
    claimer = claimer_of(house, journal=Unreachable())
    session_id = await house.new_session()

    with pytest.raises(StorageUnavailable):
        await claimer.claim(session_id, ChatPreparation(preparer, HELLO))
