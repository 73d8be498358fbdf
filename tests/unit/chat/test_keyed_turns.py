"""Turns that are started under an ``Idempotency-Key``."""

import asyncio
from unittest.mock import patch

import pytest

from chat.errors import KeyReused
from chat.service import ChatRequest, ChatService
from chat.start.turn_request import TurnRequest
from chat.turn import turn_ids
from models_app.errors import OllamaError
from sessions_app.errors import SessionNotFound, StorageReadOnly, StorageUnavailable
from tests.unit.chat.disk import FailingDisk
from tests.unit.chat.keys import keys_in


@pytest.fixture
def service(house, data_dir):
    return ChatService(
        saved=house.space,
        ephemeral=house.space,
        keys=keys_in(data_dir / ".mochi" / "keys"),
        default_model=house.default_model,
    )


@pytest.fixture
def slow_look_up(house, monkeypatch):
    """Let looking up a model wait until it is told to go on."""
    asked, go_on, describe = asyncio.Event(), asyncio.Event(), house.model.describe

    async def wait(model):
        asked.set()
        await go_on.wait()
        return await describe(model)

    monkeypatch.setattr(house.model, "describe", wait)
    return asked, go_on


def request(session_id, message="Hello!"):
    return ChatRequest(turn=TurnRequest(message=message), session_id=session_id)


async def ended(opening):
    turn = await opening
    await turn.finished()
    return turn


async def test_a_start_that_takes_minutes_is_not_taken_for_dead(
    house, service, slow_look_up, monkeypatch
):
    asked, go_on = slow_look_up
    session_id = await house.new_session()
    house.model.say_text("one answer")
    first = asyncio.create_task(service.open(request(session_id), "k"))
    await asyncio.wait_for(asked.wait(), 10)
    looks = asyncio.Queue()
    find = service._keys.find
    loop = asyncio.get_running_loop()
    now = loop.time

    def count(key):
        loop.call_soon_threadsafe(looks.put_nowait, key)
        return find(key)

    monkeypatch.setattr(service._keys, "find", count)
    second = asyncio.create_task(service.open(request(session_id), "k"))
    await looks.get()
    monkeypatch.setattr(loop, "time", lambda: now() + 3600)
    for _ in range(3):
        await looks.get()
    assert not second.done()
    go_on.set()
    turns = [await ended(first), await ended(second)]
    assert turns[0].turn_id == turns[1].turn_id
    assert [message.content for message in await house.messages(session_id)] == [
        "Hello!",
        "one answer",
    ]


async def test_a_keyed_turn_that_was_slow_to_begin_sorts_after_those_before_it(
    house, service, slow_look_up
):
    asked, go_on = slow_look_up
    session_id = await house.new_session()
    slow = asyncio.create_task(service.open(request(session_id, "slow"), "k"))
    await asyncio.wait_for(asked.wait(), 10)
    house.model.recall = lambda _: house.model.info  # known by now
    house.model.say_text("first")
    first = await ended(service.open(request(session_id, "quick")))
    house.model.say_text("second")
    go_on.set()
    second = await ended(slow)
    turns = await asyncio.to_thread(house.journal.turns, session_id)
    assert turns == [first.turn_id, second.turn_id]


@pytest.mark.parametrize("key", [None, "k"])
async def test_turns_sort_by_their_order_also_when_the_clock_is_set_back(house, service, key):
    session_id = await house.new_session()
    house.model.say_text("first")
    first = await ended(service.open(request(session_id, "one")))
    house.model.say_text("second")
    with patch.object(turn_ids.time, "time_ns", lambda: 10**18):
        second = await ended(service.open(request(session_id, "two"), key))
    turns = await asyncio.to_thread(house.journal.turns, session_id)
    assert turns == [first.turn_id, second.turn_id]
    record = await asyncio.to_thread(service._keys.find, "k")
    assert record is None if key is None else record.turn_id == second.turn_id


async def test_a_start_that_died_before_its_turn_began_is_made_again(house, service):
    session_id = await house.new_session()
    house.model.say_text("hello")
    with (
        patch.object(service._keys, "drop"),
        patch.object(house.turns, "start", side_effect=SessionNotFound(session_id)),
        patch("chat.storage.idempotency_keys.HeldKey.drop", lambda held: held.release()),
        pytest.raises(SessionNotFound),
    ):
        await service.open(request(session_id), "k")
    assert (await asyncio.to_thread(service._keys.find, "k")).turn_id is None
    await ended(service.open(request(session_id), "k"))
    assert len(await house.messages(session_id)) == 2


async def test_a_caller_that_leaves_while_its_key_is_taken_leaves_no_key_held(
    house, service, slow_look_up
):
    asked, go_on = slow_look_up
    session_id = await house.new_session()
    house.model.say_text("hello")
    opening = asyncio.create_task(service.open(request(session_id), "k"))
    await asyncio.wait_for(asked.wait(), 10)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    go_on.set()
    while house.turns.active_count:
        await asyncio.sleep(0)
    record = await asyncio.to_thread(service._keys.find, "k")
    held = record is not None and await asyncio.to_thread(service._keys.is_held, record)
    assert not held


async def test_a_key_knows_a_request_by_what_the_client_sent_not_by_what_was_made_for_it(
    house, service
):
    session_id = await house.new_session()
    house.model.say_text("hello")
    first = await ended(service.open(request(session_id, "one"), "k", identity={"body": "same"}))
    again = await service.open(request(session_id, "two"), "k", identity={"body": "same"})
    assert again.turn_id == first.turn_id
    with pytest.raises(KeyReused):
        await service.open(request(session_id, "one"), "k", identity={"body": "other"})


async def test_a_key_is_kept_while_its_session_s_file_is_away(house, service, data_dir):
    session_id = await house.new_session()
    house.model.say_text("hello")
    first = await ended(service.open(request(session_id), "k"))
    directory = data_dir / "chat_sessions"
    await asyncio.to_thread(directory.rename, data_dir / "away")
    with pytest.raises(SessionNotFound):
        await service.open(request(session_id), "k")
    await asyncio.to_thread((data_dir / "away").rename, directory)
    assert (await service.open(request(session_id), "k")).turn_id == first.turn_id
    assert len(await house.messages(session_id)) == 2


async def test_a_request_on_a_read_only_disk_is_told_so_and_works_again_afterwards(
    house, service, data_dir
):
    session_id = await house.new_session()
    house.model.say_text("hello")
    start = house.turns.start

    async def start_on_a_disk_that_turns_read_only(*arguments, **options):
        disk.turn_read_only()
        return await start(*arguments, **options)

    with (
        FailingDisk(data_dir).installed() as disk,
        patch.object(house.turns, "start", start_on_a_disk_that_turns_read_only),
        pytest.raises(StorageReadOnly),
    ):
        await service.open(request(session_id), "k")
    await ended(service.open(request(session_id), "k"))
    assert len(await house.messages(session_id)) == 2


async def test_a_turn_that_a_key_stands_for_is_found_by_what_the_client_sent(house, service):
    session_id = await house.new_session()
    assert await service.opened_before("k", "sent") is None
    house.model.say_text("one answer")
    turn = await ended(service.open(request(session_id), "k", identity="sent"))
    assert await service.opened_before("k", "something else") is None
    found = await service.opened_before("k", "sent")
    assert found is not None
    assert (found.session_id, found.turn_id) == (session_id, turn.turn_id)
    found.leave()


async def test_a_key_that_could_not_be_freed_stands_in_nobodys_way(house, service, monkeypatch):
    tried, drop, loop = asyncio.Event(), service._keys.drop, asyncio.get_running_loop()

    def away(*arguments):
        monkeypatch.setattr(service._keys, "drop", drop)
        loop.call_soon_threadsafe(tried.set)
        raise StorageUnavailable("away")

    monkeypatch.setattr(service._keys, "drop", away)
    session_id = await house.new_session()
    house.model.say(OllamaError("no"))
    turn = await service.open(request(session_id), "k")
    await turn.finished()
    async with asyncio.timeout(20):
        await tried.wait()
    house.model.say_text("one answer")
    await ended(service.open(request(session_id), "k"))
    assert [m.content for m in await house.messages(session_id)] == ["Hello!", "one answer"]
