"""A message that is sent again under its key is the same one, wherever it is by then."""

import asyncio

import pytest

from chat.errors import KeyReused, MessageDeleted
from chat.service import OpenTurn
from chat.storage.idempotency_keys import HeldKey
from models_app.language_model import Finished, TextDelta
from sessions_app.errors import StorageFull
from sessions_app.session import with_messages

NOW = "2026-11-28T12:00:00.000000+00:00"


async def test_the_same_key_is_the_same_message_while_it_waits_and_after(desk, house):
    session_id = await desk.busy()
    house.model.say_text("Yes.")

    first = await desk.queue(session_id, "First?", key="k")
    assert await desk.queue(session_id, "First?", key="k") == first
    with pytest.raises(KeyReused):
        await desk.queue(session_id, "Other?", key="k")
    assert (await desk.queue(session_id, "First?", key="l")).message_id != first.message_id
    await desk.inbox.delete(
        session_id, (await desk.inbox.listing(session_id)).messages[1].message_id
    )
    house.model.go_on.set()
    await desk.idle(session_id, messages=4)

    again = await desk.queue(session_id, "First?", key="k")

    assert (again.state, again.message_id) == ("taken", first.message_id)
    with pytest.raises(KeyReused):
        await desk.queue(session_id, "Other?", key="k")
    assert len(await house.messages(session_id)) == 4


async def test_a_queued_message_that_is_sent_again_without_waiting_is_the_same(desk, house):
    session_id = await desk.busy()
    house.model.say_text("Yes.")
    first = await desk.queue(session_id, "First?", key="k")

    assert await desk.queue(session_id, "First?", "refuse", key="k") == first
    house.model.go_on.set()
    await desk.idle(session_id, messages=4)

    again = await desk.queue(session_id, "First?", "refuse", key="k")
    assert (again.state, again.message_id) == ("taken", first.message_id)
    with pytest.raises(KeyReused):
        await desk.send(session_id, "Other?", "refuse", key="k")
    assert len(await house.messages(session_id)) == 4


async def test_a_key_is_the_same_message_after_an_edit_and_no_other_once_it_is_taken(desk, house):
    session_id = await desk.busy()
    house.model.say_text("Yes.")
    first = await desk.queue(session_id, "First?", key="k")
    await desk.inbox.edit(session_id, first.message_id, content="Edited?")
    house.model.go_on.set()
    await desk.idle(session_id, messages=4)

    again = await desk.queue(session_id, "First?", key="k")

    assert (again.state, again.message_id) == ("taken", first.message_id)
    with pytest.raises(KeyReused):
        await desk.send(session_id, "Edited?", key="k")
    assert len(await house.messages(session_id)) == 4


@pytest.mark.parametrize("when_busy", ["refuse", "queue"])
@pytest.mark.parametrize("all_of_them", [True, False])
async def test_a_deletion_is_not_undone_by_a_late_repetition(desk, house, when_busy, all_of_them):
    session_id = await desk.busy()
    queued = await desk.queue(session_id, "First?", key="k")
    await desk.inbox.delete(session_id, None if all_of_them else queued.message_id)

    with pytest.raises(MessageDeleted):
        await desk.send(session_id, "First?", when_busy, key="k")
    house.model.go_on.set()
    await desk.idle(session_id, messages=2)
    with pytest.raises(MessageDeleted):
        await desk.send(session_id, "First?", when_busy, key="k")
    assert len(await house.messages(session_id)) == 2


async def test_an_answered_message_that_was_deleted_is_not_said_again(desk, house):
    session_id = await desk.busy()
    house.model.say_text("Yes.")
    await desk.queue(session_id, "First?", key="k")
    house.model.go_on.set()
    await desk.idle(session_id, messages=4)
    await asyncio.to_thread(
        house.repository.update,
        session_id,
        lambda session: with_messages(session, session.messages[:2], now=NOW),
    )

    with pytest.raises(MessageDeleted):
        await desk.send(session_id, "First?", key="k")


async def test_a_message_whose_key_was_lost_is_queued_once(desk, house, monkeypatch):
    session_id = await desk.busy()

    def fail(*_, **__):
        raise StorageFull("full")

    with monkeypatch.context() as patch:
        patch.setattr(HeldKey, "keep", fail)
        with pytest.raises(StorageFull):
            await desk.queue(session_id, "First?", key="k")

    again = await desk.queue(session_id, "First?", key="k")

    assert again.position == 1
    assert await desk.waiting(session_id) == (None, ["First?"])
    assert await desk.queue(session_id, "First?", key="k") == again


async def test_equal_requests_at_once_queue_one_message(desk, house):
    session_id = await desk.busy()

    queued = await asyncio.gather(*(desk.queue(session_id, "First?", key="k") for _ in range(5)))

    assert len({each.message_id for each in queued}) == 1
    assert await desk.waiting(session_id) == (None, ["First?"])


async def test_a_request_that_started_a_turn_is_not_queued_when_it_is_sent_again(desk, house):
    session_id = await house.new_session()
    house.model.say([TextDelta("One ")], ..., [Finished()])
    first = await desk.send(session_id, "Count!", key="k", detached=True)
    await first.committed()
    await desk.queue(session_id, "Later?")

    again = await desk.send(session_id, "Count!", key="k", detached=True)

    assert (isinstance(again, OpenTurn), again.turn_id) == (True, first.turn_id)
    with pytest.raises(KeyReused):
        await desk.send(session_id, "Other!", key="k")
    assert await desk.waiting(session_id) == (None, ["Later?"])
