"""Turns whose sessions are objects: what a turn costs the store, and what it does without it."""

import asyncio

import pytest

from chat.turn.state_machine import State
from cluster_app.objects.repository import ObjectSessionRepository
from models_app.language_model import Finished, TextDelta
from sessions_app.errors import StorageUnavailable
from tests.contract.memory_index import MemorySessionIndex
from tests.contract.memory_repository import MemoryOwners
from tests.object_server import refusal
from tests.unit.chat.conftest import House, NoTools
from tests.unit.chat.turns import HELLO, WAIT, listen, names, run

pytestmark = pytest.mark.allow_blocking  # the object store is a thread of this process


@pytest.fixture
async def make_house(data_dir, object_store):
    made = []

    def make(*, retry_seconds):
        def repository(_directory, *, is_over, **_how):
            return ObjectSessionRepository(
                object_store.under("sessions"),
                deleted=object_store.under("deleted"),
                owners=MemoryOwners(),
                index=MemorySessionIndex(),
                is_over=is_over,
                retry_seconds=retry_seconds,
            )

        class ObjectHouse(House):
            repository_type = staticmethod(repository)

        made.append(ObjectHouse(data_dir, NoTools()))
        return made[0]

    yield make
    for house in made:
        await house.turns.shutdown(grace_seconds=0)


def away(request, serve):
    return refusal("503 Slow Down")


async def test_a_turn_is_two_writes_and_a_read_where_its_model_must_be_looked_up(
    make_house, object_server
):
    house = make_house(retry_seconds=0)
    session_id = await house.new_session()
    house.model.say_text("Hello ", "there.")
    object_server.forget_requests()
    events, _ = await run(house, session_id)
    assert names(events)[-2:] == ["message_complete", "done"]
    assert [request.method for request in object_server.requests] == ["GET", "PUT", "PUT"]
    assert object_server.requests[0].if_none_match, "it is not sent again"
    house.model.recall = lambda _name: house.model.info
    house.model.say_text("And again.")
    object_server.forget_requests()
    await run(house, session_id)
    assert [request.method for request in object_server.requests] == ["PUT", "PUT"]
    said = [each.content for each in await house.messages(session_id)]
    assert said == ["Hello!", "Hello there.", "Hello!", "And again."]


async def test_an_answer_waits_for_a_store_that_is_away_for_a_moment(
    make_house, object_server, monkeypatch
):
    monkeypatch.setattr("cluster_app.objects.swap.RETRY_SECONDS", 0.01)
    house = make_house(retry_seconds=30)
    session_id = await house.new_session()
    house.model.say([TextDelta("Hello.")], WAIT, [Finished()])
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    tries = []

    def away_for_a_while(request, serve):
        tries.append(request.method)
        return serve() if len(tries) > 5 else None

    with object_server.meddled(away_for_a_while):
        house.model.go_on.set()
        events = await listen(turn)
    assert names(events)[-2:] == ["message_complete", "done"]
    assert [said.content for said in await house.messages(session_id)] == ["Hello!", "Hello."]


async def test_a_turn_whose_store_stays_away_leaves_its_claim_to_whoever_comes_next(
    make_house, object_server
):
    house = make_house(retry_seconds=0)
    session_id = await house.new_session()
    house.model.say([TextDelta("Half an answer.")], WAIT, [Finished()])
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    with object_server.meddled(away):
        house.model.go_on.set()
        events = await listen(turn)
        outcome = await turn.finished()
        assert names(events)[-2:] == ["error", "done"]
        assert events[-2][1]["code"] == "STORAGE_UNAVAILABLE"
        assert outcome.state is State.UNSAVED
        with pytest.raises(StorageUnavailable):
            await house.messages(session_id)
    repository = house.sessions.repository
    claim = await asyncio.to_thread(repository.claim_of, session_id)
    assert claim is not None
    assert not claim.alive, "its process lives, but it has left"
    house.model.say_text("Whole.")
    assert names((await run(house, session_id))[0])[-2:] == ["message_complete", "done"]
    said = await house.messages(session_id)
    assert [each.content for each in said] == ["Hello!", "Half an answer.", "Hello!", "Whole."]
    assert said[1].interrupted
    assert await asyncio.to_thread(repository.claims) == []


async def test_a_turn_that_can_not_claim_its_session_leaves_it_to_the_next(
    make_house, object_server
):
    """The write of the claim was made, and nobody could be told."""
    house = make_house(retry_seconds=0)
    session_id = await house.new_session()

    def write_and_say_nothing(request, serve):
        if request.writes and request.if_match:
            serve()
        return refusal("503 Slow Down")

    with object_server.meddled(write_and_say_nothing), pytest.raises(StorageUnavailable):
        await house.turns.start(session_id, HELLO)
    house.model.say_text("Hello.")
    assert names((await run(house, session_id))[0])[-2:] == ["message_complete", "done"]
    said = [each.content for each in await house.messages(session_id)]
    assert said[-2:] == ["Hello!", "Hello."]
