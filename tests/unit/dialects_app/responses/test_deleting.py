"""A deleted response is gone, and with it the session that was made for it alone."""

import asyncio

import pytest

from dialects_app.responses.conversations import Conversations, ItemsIn
from dialects_app.responses.errors import ResponseNotFound
from dialects_app.responses.record import ResponseRecord
from dialects_app.responses.store import ResponseStore
from dialects_app.shared.ids import conversation_id
from tests.unit.dialects_app.responses.conftest import kept_in, run


async def is_gone(kept, name):
    for call in (kept.get, kept.stream, kept.cancel, kept.delete, kept.input_items):
        with pytest.raises(ResponseNotFound):
            await call(name)


async def test_a_response_takes_a_session_along_that_was_made_for_it(house, kept, store):
    house.model.say_text("Hello")
    name = await run(house)
    await asyncio.to_thread(store.keep, name[5:15], name[15:], ResponseRecord())
    assert (await kept.delete(name)).deleted
    assert (await asyncio.to_thread(house.sessions.list_sessions)) == ()
    await is_gone(kept, name)


async def test_a_turn_that_comes_before_the_deletion_keeps_the_session(house, store):
    house.model.say_text("Hello")
    house.model.say_text("Hello again")
    name = await run(house)
    loop = asyncio.get_running_loop()

    class Sessions:
        def delete(self, session_id, **more):
            asyncio.run_coroutine_threadsafe(run(house, session_id), loop).result(20)
            house.sessions.delete(session_id, **more)

    kept = kept_in(house, Sessions())
    await asyncio.to_thread(store.keep, name[5:15], name[15:], ResponseRecord())

    assert (await kept.delete(name)).deleted

    (session,) = await asyncio.to_thread(house.sessions.list_sessions)
    assert session.session_id == name[5:15]
    await is_gone(kept, name)


@pytest.mark.parametrize(
    "record",
    [
        None,
        ResponseRecord(echo={"conversation": {"id": conversation_id("0" * 10)}}),
        ResponseRecord(echo={"previous_response_id": "resp_1"}),
    ],
)
async def test_a_session_that_was_there_before_stays(house, kept, store, record):
    house.model.say_text("Hello")
    name = await run(house)
    if record is not None:
        await asyncio.to_thread(store.keep, name[5:15], name[15:], record)
    await kept.delete(name)
    assert [message.content for message in await house.messages(name[5:15])] == ["Hello!", "Hello"]
    await is_gone(kept, name)


async def test_a_session_with_other_turns_stays(house, kept, store):
    house.model.say_text("Hello")
    first = await run(house)
    await asyncio.to_thread(store.keep, first[5:15], first[15:], ResponseRecord())
    house.model.say_text("Again")
    second = await run(house, first[5:15])
    await kept.delete(first)
    await is_gone(kept, first)
    assert (await kept.get(second))["status"] == "completed"
    assert [said["content"][0]["text"] for said in await kept.input_items(second)] == [
        *("Hello!", "Hello", "Hello!"),
    ]


async def test_a_session_to_which_items_were_added_stays(house, kept, store):
    house.model.say_text("Hello")
    name = await run(house)
    await asyncio.to_thread(store.keep, name[5:15], name[15:], ResponseRecord())
    items = ItemsIn(items=[{"role": "user", "content": "By hand"}])
    conversations = Conversations(house.sessions, ResponseStore(house.space.records))
    await asyncio.to_thread(conversations.add, conversation_id(name[5:15]), items)
    await kept.delete(name)
    said = [message.content for message in await house.messages(name[5:15])]
    assert said == ["Hello!", "Hello", "By hand"]
    await is_gone(kept, name)
