"""Turns of other processes, reached through what they leave on disk."""

import asyncio
from unittest.mock import patch

import pytest

from chat.remote import journal_follower
from chat.start.preparation import TurnRequest
from chat.storage.journal import line
from models_app.language_model import TextDelta


@pytest.fixture
def house(make_house):
    return make_house()


async def test_a_follower_that_waits_reads_no_session(house, monkeypatch):
    monkeypatch.setattr(journal_follower, "LIVENESS_SECONDS", 0.01)
    house.model.say([TextDelta("Hello")], ...)
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, TurnRequest(message="Hello!", detached=True))
    await house.model.asked.wait()
    remote = house.turns._remote
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


async def test_a_follower_ends_when_its_session_is_deleted(house, monkeypatch):
    monkeypatch.setattr(journal_follower, "LIVENESS_SECONDS", 0.01)
    session_id = await house.new_session()
    await asyncio.to_thread(begin_journal, house, session_id)
    remote = house.turns._remote
    follower = remote._follow(session_id, "0" * 20, after=0)
    assert await follower.next_entries()
    await asyncio.to_thread(house.sessions.delete, session_id)
    await asyncio.to_thread(house.journal.discard_session, session_id)
    ended = await follower.next_entries()
    assert [entry.event for entry in ended] == ["error", "done"]
    assert await follower.next_entries() is None
    follower.close()
