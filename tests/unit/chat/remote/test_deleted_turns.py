"""Turns of which messages were deleted: nobody is sent their events, or runs them again."""

import asyncio
from contextlib import suppress

import pytest

from chat.errors import MessageDeleted
from chat.remote.deleted_turns import DeletedTurns
from chat.service import ChatRequest, ChatService
from chat.start.turn_request import TurnRequest
from models_app.errors import ModelError
from models_app.language_model import Finished, TextDelta
from sessions_app.errors import SessionBusy, StorageUnavailable
from tests.unit.chat.keys import keys_in
from tests.unit.chat.listening import names, read_all
from tests.unit.chat.nodes import ClusterNode
from tests.unit.chat.turns import HELLO, WAIT


@pytest.fixture(params=["files", "cluster"])
def shared(request):
    """Return the Redis and the object store of a cluster; None for files."""
    if request.param == "files":
        return None
    return request.getfixturevalue("redis_connection"), request.getfixturevalue("object_store")


@pytest.fixture
async def home(shared, data_dir, make_house):
    """Return a house whose journals are in files, or in Redis."""
    if shared is None:
        house = make_house()
        yield house
        with suppress(ModelError):
            await house.turns.shutdown(grace_seconds=0)
        return
    node = await asyncio.to_thread(ClusterNode, data_dir, *shared)
    yield node
    await node.aclose()


@pytest.fixture
def service(home, data_dir):
    keys = keys_in(data_dir / ".mochi" / "asked")
    return ChatService(
        saved=home.space, ephemeral=home.space, keys=keys, default_model=home.default_model
    )


async def ask(service, session_id, message="Hello!"):
    """Ask under a key of its own; return the id of the turn that was run, or found."""
    request = ChatRequest(turn=TurnRequest(message=message), session_id=session_id)
    turn = await service.open(request, key=message)
    await turn.finished()
    await read_all(turn.listener)
    turn.leave()
    return turn.turn_id


async def delete(home, session_id, index):
    await asyncio.to_thread(home.sessions.delete_message, session_id, index)


async def journals(home, session_id):
    return await asyncio.to_thread(home.journal.turns, session_id)


@pytest.mark.parametrize("indexes", [(0,), (1,), (1, 0)])
async def test_a_turn_whose_message_was_deleted_is_neither_sent_nor_run_again(
    home, service, indexes
):
    session_id = await home.new_session()
    home.model.say_text("one answer")
    turn_id = await ask(service, session_id)
    assert await ask(service, session_id) == turn_id
    for index in indexes:
        await delete(home, session_id, index)
    left = await home.messages(session_id)

    assert await journals(home, session_id) == []
    assert await home.turns.attach(session_id, None) is None
    with pytest.raises(MessageDeleted):
        await ask(service, session_id)
    with pytest.raises(MessageDeleted):
        await ask(service, session_id)
    assert await home.messages(session_id) == left
    assert len(home.model.requests) == 1
    home.model.say_text("another answer")
    assert await ask(service, session_id, "Hello again!") != turn_id


async def test_other_turns_of_the_session_stay(home, service):
    session_id = await home.new_session()
    for text in ("one", "two"):
        home.model.say_text(text)
        await ask(service, session_id, text)
    first, second = await journals(home, session_id)

    await delete(home, session_id, 3)

    assert await journals(home, session_id) == [first]
    assert await ask(service, session_id, "one") == first
    assert await home.turns.attach(session_id, (second, 2)) is None
    events = await read_all(await home.turns.attach(session_id, None))
    assert names(events)[0] == "turn_started"


async def test_an_answer_takes_the_turns_of_its_variants_along(home, service):
    session_id = await home.new_session()
    home.model.say_text("one")
    await ask(service, session_id)
    home.model.say_text("two")
    turn = await home.turns.start(session_id, TurnRequest())
    await turn.finished()
    assert len(await journals(home, session_id)) == 2
    await delete(home, session_id, 1)
    assert await journals(home, session_id) == []


async def test_a_running_turn_is_left_alone(home, service):
    session_id = await home.new_session()
    home.model.say_text("one")
    await ask(service, session_id)
    home.model.say([TextDelta("Half")], WAIT, [Finished(done_reason="stop")])
    turn = await home.turns.start(session_id, HELLO)
    await home.model.asked.wait()
    with pytest.raises(SessionBusy):
        await delete(home, session_id, 0)
    deleted = DeletedTurns(home.journal, home.recovery, home.records)
    await asyncio.to_thread(deleted.forget, session_id, await home.messages(session_id))
    assert await journals(home, session_id) == [turn.turn_id]
    home.model.go_on.set()
    await turn.finished()
    assert await read_all(await home.turns.attach(session_id, None))


async def test_what_can_not_be_forgotten_is_told_to_the_log(house, caplog, monkeypatch):
    service = ChatService(
        saved=house.space, ephemeral=house.space, keys=house.keys, default_model=house.default_model
    )
    session_id = await house.new_session()
    house.model.say_text("one")
    turn_id = await ask(service, session_id)

    def fail(*_):
        raise StorageUnavailable("no store")

    monkeypatch.setattr(house.records, "put", fail)
    await delete(house, session_id, 1)
    assert "stays until it is swept" in caplog.text
    assert await ask(service, session_id) == turn_id
