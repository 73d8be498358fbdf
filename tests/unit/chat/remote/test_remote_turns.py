"""Turns of other processes, reached through what they leave on disk."""

import asyncio
from unittest.mock import patch

import pytest

from chat.errors import NoActiveTurn
from chat.start.turn_request import TurnRequest
from chat.storage.journal import line
from models_app.language_model import Finished, TextDelta
from sessions_app.errors import SessionNotFound


@pytest.fixture
def house(make_house):
    return make_house()


async def test_a_follower_that_waits_reads_no_session(house):
    house.model.say([TextDelta("Hello")], ...)
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, TurnRequest(message="Hello!", detached=True))
    await house.model.asked.wait()
    remote = house.remote
    follower = await remote.listen(session_id, turn.turn_id)
    settled = asyncio.Semaphore(0)
    settle = follower._settle

    async def counted():
        try:
            return await settle()
        finally:
            settled.release()

    follower._settle = counted
    with patch.object(house.sessions.repository, "load", side_effect=AssertionError) as load:
        listening = asyncio.create_task(follower.next_entries())
        while not listening.done():  # what was written already
            await asyncio.sleep(0)
        listening = asyncio.create_task(follower.next_entries())
        async with asyncio.timeout(10):
            for _ in range(5):
                await settled.acquire()
    assert not load.called
    assert not listening.done()
    house.model.go_on.set()
    await listening
    while await follower.next_entries() is not None:
        pass
    follower.close()


def begin_journal(house, session_id):
    writer = house.journal.open(session_id, "0" * 20, owner="me")
    writer.append(line(1, "turn_started", "{}"))
    writer.close()


async def test_a_follower_ends_when_its_session_is_deleted(house):
    session_id = await house.new_session()
    await asyncio.to_thread(begin_journal, house, session_id)
    remote = house.remote
    follower = remote._follow(session_id, "0" * 20, after=0)
    assert await follower.next_entries()
    await asyncio.to_thread(house.sessions.delete, session_id)
    await asyncio.to_thread(house.journal.discard_session, session_id)
    ended = await follower.next_entries()
    assert [entry.event for entry in ended] == ["error", "done"]
    assert await follower.next_entries() is None
    follower.close()


@pytest.fixture
async def speaking(house):
    """A turn that has said a word, and goes on when it is told."""
    house.model.say([TextDelta("Hello ")], ..., [TextDelta("there"), Finished()])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, TurnRequest(message="Hello!"))
    async with asyncio.timeout(20):
        await house.model.asked.wait()
        while await house.turns._remote.events(session_id, turn.turn_id) in ([], None):
            await asyncio.sleep(0)
    return turn


async def test_the_events_of_a_turn_are_read_while_it_runs_and_when_it_is_over(house, speaking):
    remote, place = house.turns._remote, (speaking.session_id, speaking.turn_id)
    begun = await remote.events(*place)
    assert begun[0].name == "turn_started"
    house.model.go_on.set()
    await speaking.finished()
    events = await remote.events(*place)
    assert [event.number for event in events] == [*range(1, len(events) + 1)]
    assert events[-1].name == "done"
    assert await remote.events(speaking.session_id, "0" * 20) is None
    with pytest.raises(SessionNotFound):
        await remote.events("0" * 10, speaking.turn_id)


async def test_a_turn_that_others_listen_to_goes_on_without_its_first_client(house, speaking):
    listener = await house.turns.listen(speaking.session_id, speaking.turn_id)
    speaking.leave(speaking.first_subscription)
    listener.close()
    house.model.go_on.set()
    outcome = await speaking.finished()
    assert outcome.message.content == "Hello there"


@pytest.mark.parametrize("of", ["turns", "remote"])
async def test_what_listens_from_another_process_lets_a_turn_go_on_too(
    house, speaking, make_house, of
):
    other = make_house()
    async with asyncio.timeout(20):
        listener = await getattr(other, of).listen(speaking.session_id, speaking.turn_id)
    assert speaking.detached
    speaking.leave(speaking.first_subscription)
    house.model.go_on.set()
    names = []
    async with asyncio.timeout(20):
        while (events := await listener.next()) is not None:
            names += [event.name for event in events]
    assert (names[0], names[-1]) == ("turn_started", "done")
    listener.close()


async def test_a_turn_of_which_nothing_is_left_can_not_be_listened_to(house, speaking):
    house.model.go_on.set()
    await speaking.finished()
    assert await house.turns.listen(speaking.session_id, "0" * 20) is None
    await asyncio.to_thread(house.journal.discard, speaking.session_id, speaking.turn_id)
    assert await house.turns.listen(speaking.session_id, speaking.turn_id) is None


async def test_only_the_turn_that_is_meant_is_cancelled(house, speaking, make_house):
    other = make_house()
    for turns in (house.turns, other.turns):
        with pytest.raises(NoActiveTurn):
            await turns.cancel(speaking.session_id, "0" * 20)
    assert not speaking.state.is_final
    async with asyncio.timeout(20):
        report = await other.turns.cancel(speaking.session_id, speaking.turn_id)
    assert (report.turn_id, report.partial_content) == (speaking.turn_id, "Hello")


async def test_who_leaves_before_a_turn_has_begun_stops_watching_its_journal(house):
    house.model.say(..., [TextDelta("Hello"), Finished()])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, TurnRequest(message="Hello!"))
    watched, watch = set(), house.journal.watch
    begun = asyncio.Event()

    def counted(*args):
        stop = watch(*args)
        watched.add(stop)
        begun.set()
        return lambda: (watched.discard(stop), stop())

    with patch.object(house.journal, "watch", counted):
        for listening in (
            house.remote.follow(session_id, None),
            house.remote.listen(session_id, turn.turn_id),
        ):
            begun.clear()
            task = asyncio.create_task(listening)
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not watched
    house.model.go_on.set()
    await turn.finished()
