"""A turn's model and tools are looked up first; then its session is claimed, by a pure function."""

import asyncio
import dataclasses
from contextlib import suppress
from unittest.mock import Mock

import pytest

from chat.errors import NothingToContinue
from chat.start.claiming import MOST_LOOK_UPS, TurnClaimer
from chat.start.preparation import ChatPreparation
from chat.start.turn_request import TurnRequest
from models_app.errors import ModelNotFound
from sessions_app.errors import SessionBusy, SessionNotFound, StorageFull, StorageUnavailable
from sessions_app.messages import UserMessage
from sessions_app.session import append_messages, make_session, with_metadata
from sessions_app.store.file_repository import FileSessionRepository
from tests.claims import claim_session
from tests.contract.memory_journal import MemoryJournal

HELLO = TurnRequest(message="Hello!")
NOW = "2026-11-21T10:00:00.000000+00:00"


class Known:
    """A catalogue that knows models at once, and others once it has asked; counts what it asks."""

    def __init__(self, model, known=("m",)):
        self.model = model
        self.known = set(known)
        self.asked = []
        self.while_asking = lambda: None

    def resolve(self, name):
        return self, name

    def recall(self, name):
        return self.model.info if name in self.known else None

    async def loaded_window(self, name):
        return None

    async def look_up(self, name):
        self.asked.append(name)
        await asyncio.to_thread(self.while_asking)
        if name == "missing":
            raise ModelNotFound("there is none", model=name)
        return self.model.info


class Threads:
    """Counts the visits to threads."""

    def __init__(self):
        self.visits = 0

    def run(self, work):
        self.visits += 1
        return asyncio.to_thread(work)


@pytest.fixture
def threads():
    return Threads()


@pytest.fixture
def models(house):
    return Known(house.model)


def claimer_of(house, **more):
    how = {
        "repository": house.sessions.repository,
        "journal": house.journal,
        "recovery": house.recovery,
        "confirmation_store": house.confirmation_store,
    }
    return TurnClaimer(**{**how, **more})


@pytest.fixture
def preparer(house, models):
    return dataclasses.replace(house.preparer, models=models)


@pytest.fixture
def claim(house, preparer, threads):
    claimer = claimer_of(house, in_thread=threads.run)

    async def claim(session_id, request=HELLO, **more):
        return await claimer.claim(session_id, ChatPreparation(preparer, request), **more)

    return claim


def choose(house, session_id, model):
    """Change the session's model, as another process does."""
    repository = FileSessionRepository(house.sessions_dir)
    repository.update(session_id, lambda session: with_metadata(session, now=NOW, model=model))


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


@pytest.fixture
def away(house, monkeypatch):
    """Let the questions of earlier turns be out of reach."""
    error = StorageUnavailable("Redis is away.")
    monkeypatch.setattr(house.confirmation_store, "withdraw_all", Mock(side_effect=error))


def loaded(house, session_id):
    return asyncio.to_thread(FileSessionRepository(house.sessions_dir).load, session_id)


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
