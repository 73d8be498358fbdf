"""Who waits for the answer to a queued message gets the stream of the turn that brings it."""

import asyncio

import pytest

from chat.http.projector import UnchangedEvents
from chat.inbox.queued_stream import QueuedStream
from models_app.errors import OllamaUnreachable
from models_app.language_model import Finished, TextDelta
from sessions_app.errors import QueuedMessageNotFound
from tests.unit.chat.inbox.conftest import Desk
from tests.unit.chat.listening import names, read_all
from tests.unit.chat.turns import Calculator, call


class Ended:
    """A listener of a turn without any event that is left."""

    async def next(self, sink=None):
        return None

    def close(self):
        pass


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr("chat.inbox.queued_stream.LONGEST_PAUSE_SECONDS", 0.02)


async def test_it_waits_for_the_turn_that_takes_the_message(desk, house):
    session_id = await desk.busy()
    house.model.say_text("First.")
    house.model.say_text("Second.")
    await desk.queue(session_id, "First?")
    queued = await desk.queue(session_id, "Second?")
    stream = await desk.inbox.listen(session_id, queued.message_id)
    listening = asyncio.create_task(read_all(stream))

    house.model.go_on.set()
    events = await listening

    assert events[0].decode().user_message_id == queued.message_id
    assert names(events)[-1] == "done"
    assert "Second." in [each.decode().content for each in events if each.name == "content_delta"]
    assert UnchangedEvents(stream).feed(events[:1]).startswith(f"id: {stream.turn_id}:1".encode())


async def test_it_is_the_stream_of_a_turn_that_is_over(desk, house):
    session_id = await desk.busy()
    house.model.say_text("First.")
    queued = await desk.queue(session_id, "First?")
    house.model.go_on.set()
    await desk.idle(session_id, messages=4)

    events = await read_all(await desk.inbox.listen(session_id, queued.message_id))

    assert (names(events)[0], names(events)[-1]) == ("turn_started", "done")


async def test_a_message_that_is_not_there_is_not_found(desk, house):
    session_id = await desk.busy()

    with pytest.raises(QueuedMessageNotFound):
        await desk.inbox.listen(session_id, "0123456789")


async def test_a_message_that_is_deleted_meanwhile_ends_it_with_an_error(desk, house):
    session_id = await desk.busy()
    queued = await desk.queue(session_id, "First?")
    listening = asyncio.create_task(
        read_all(await desk.inbox.listen(session_id, queued.message_id))
    )
    await desk.inbox.delete(session_id, queued.message_id)

    error, done = [each.decode() for each in await listening]

    assert (error.code, done.event) == ("QUEUED_MESSAGE_NOT_FOUND", "done")


async def test_a_message_whose_turn_is_refused_ends_it_with_the_error(desk, house):
    session_id = await desk.busy()
    queued = await desk.queue(session_id, "First?")
    listening = asyncio.create_task(
        read_all(await desk.inbox.listen(session_id, queued.message_id))
    )
    house.model.say(OllamaUnreachable("down"))

    house.model.go_on.set()
    events = await listening

    assert names(events)[-1] == "done"
    again = await read_all(await desk.inbox.listen(session_id, queued.message_id))
    assert names(again) == ["done"]


async def test_while_the_message_waits_there_is_a_heartbeat(desk, house, monkeypatch):
    monkeypatch.setattr("chat.inbox.queued_stream.HEARTBEAT_SECONDS", 0.02)
    session_id = await desk.busy()
    queued = await desk.queue(session_id, "First?")
    stream = await desk.inbox.listen(session_id, queued.message_id)

    assert await stream.next() == ()
    assert await stream.next() == ()
    stream.close()


async def test_a_steering_message_is_heard_from_where_it_was_taken(make_house):
    house = make_house(Calculator())
    desk = Desk(house)
    session_id = await house.new_session(tools=["add"])
    house.model.say([TextDelta("Well.")], ..., [call("c1", a=1, b=2)], [Finished()])
    house.model.say_text("Three, as you say.")
    opened = await desk.send(session_id, "Add!", detached=True)
    await opened.committed()
    await house.model.asked.wait()
    queued = await desk.queue(session_id, "In words!", "steer")
    house.model.go_on.set()

    events = await read_all(await desk.inbox.listen(session_id, queued.message_id))

    assert names(events)[0] == "message_taken"
    assert names(events)[-1] == "done"
    assert [each.content for each in await house.messages(session_id)][2:] == [
        "3",
        "In words!",
        "Three, as you say.",
    ]
    await house.turns.shutdown(0)


async def test_a_steer_that_finds_no_further_request_is_first_of_the_queue(desk, house):
    session_id = await desk.busy()
    await desk.queue(session_id, "Later?")
    await desk.queue(session_id, "In words!", "steer")
    house.model.say_text("One.")
    house.model.say_text("Later.")

    house.model.go_on.set()

    contents = await desk.idle(session_id, messages=6)
    assert contents[2:] == ["In words!", "One.", "Later?", "Later."]


async def test_a_turn_whose_stream_lacks_the_message_ends_it_with_done():
    async def taken():
        return "0199f3a2b4c51f2e3d4c"

    async def listen(turn_id):
        return Ended()

    stream = QueuedStream("a1b2c3d4e5", "m1", turn_of=taken, listen=listen)

    assert names(await read_all(stream)) == ["done"]
    assert stream.turn_id == "0199f3a2b4c51f2e3d4c"
