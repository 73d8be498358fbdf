"""A message that waited is answered as its request asked for, at the cost of any other turn."""

import asyncio

import pytest

from chat.errors import TooManyTurns
from chat.service import ChatRequest
from chat.start.turn_limits import TurnPlaces
from chat.start.turn_request import TurnRequest
from models_app.errors import OllamaUnreachable
from models_app.language_model import Finished, TextDelta
from sessions_app.errors import SessionBusy
from sessions_app.messages import AssistantMessage, Attachment, UserMessage
from tests.unit.chat.inbox.conftest import Desk


@pytest.fixture
async def desk(house):
    return Desk(house)


async def test_what_a_request_asks_for_is_asked_when_it_is_answered(desk, house):
    session_id = await desk.busy()
    house.model.say_text("{}")
    file = Attachment(id=f"sha256:{'0' * 64}", name="a.txt", media_type="text/plain", size=1)
    await desk.queue(
        session_id,
        "What is it?",
        attachments=(file,),
        options={"temperature": 0.5},
        instructions="Be brief.",
        settings={"options": {"seed": 7}},
    )

    house.model.go_on.set()
    await desk.idle(session_id, messages=4)

    asked = house.model.requests[-1]
    assert (asked.options["temperature"], asked.options["seed"]) == (0.5, 7)
    assert any("Be brief." in each.content for each in asked.messages)
    [*_, said, _] = await house.messages(session_id)
    assert said.attachments == (file,)
    session = await asyncio.to_thread(house.sessions.get, session_id)
    assert session.metadata.options == {"seed": 7}


async def test_a_message_that_equals_an_unanswered_one_is_said_all_the_same(desk, house):
    """A retry of a client is not said twice; a message that was acknowledged is no retry."""
    session_id = await house.new_session()
    house.model.say(OllamaUnreachable("down"))
    failing = await desk.send(session_id, "Hello!")
    with pytest.raises(OllamaUnreachable):
        await failing.committed()
    await desk.idle(session_id, messages=1)
    house.model.say([TextDelta("One ")], ..., [Finished()])
    opened = await desk.send(session_id, "Hello!", detached=True)
    await opened.committed()
    await house.model.asked.wait()
    queued = await desk.queue(session_id, "Hello!")
    house.model.say_text("Hi.")

    house.model.go_on.set()

    assert await desk.idle(session_id, messages=4) == ["Hello!", "One", "Hello!", "Hi."]
    assert (await house.messages(session_id))[2].message_id == queued.message_id


class FullPlaces(TurnPlaces):
    """The places of a process; the next ones that are asked for are taken by others."""

    def __init__(self):
        super().__init__(10)
        self.refusals = 0

    def take(self, client):
        if self.refusals:
            self.refusals -= 1
            raise TooManyTurns(10)
        return super().take(client)


async def test_a_full_house_answers_what_waits_when_there_is_a_place(make_house, monkeypatch):
    monkeypatch.setattr("chat.start.inbox_drain.RETRY_SECONDS", 0.01)
    places = FullPlaces()
    house = make_house(places=places)
    desk = Desk(house)
    session_id = await desk.busy()
    await desk.queue(session_id, "Later?")
    places.refusals = 3
    house.model.say_text("Later.")

    house.model.go_on.set()

    assert (await desk.idle(session_id, messages=4))[2:] == ["Later?", "Later."]
    assert places.refusals == 0
    await house.turns.shutdown(0)


class Writes:
    """Counts what is read and written of sessions."""

    def __init__(self, house, monkeypatch):
        self.counts = dict.fromkeys(["update", "claim", "release", "load", "load_claimed"], 0)
        for name in self.counts:
            self._count(house.repository, name, monkeypatch)

    def _count(self, repository, name, monkeypatch):
        make = getattr(repository, name)

        def counted(*args, **how):
            self.counts[name] += 1
            return make(*args, **how)

        monkeypatch.setattr(repository, name, counted)


async def test_a_queued_message_is_delivered_in_the_write_that_claims(desk, house, monkeypatch):
    session_id = await desk.busy()
    house.model.say_text("Later.")
    writes = Writes(house, monkeypatch)
    await desk.queue(session_id, "Later?")
    assert (writes.counts["update"], writes.counts["claim"]) == (1, 0)

    house.model.go_on.set()
    await desk.idle(session_id, messages=4)

    # The two other updates are the two answers.
    assert (writes.counts["update"], writes.counts["claim"]) == (3, 1)
    assert writes.counts["release"] == 0


async def test_an_ordinary_turn_reads_and_writes_as_much_as_ever(desk, house, monkeypatch):
    session_id = await house.new_session()
    house.model.say_text("Hi.")
    writes = Writes(house, monkeypatch)

    opened = await desk.send(session_id, "Hello!", "refuse")
    await opened.finished()

    counts = writes.counts
    assert (counts["update"], counts["claim"], counts["release"], counts["load"]) == (1, 1, 0, 0)
    assert counts["load_claimed"] == 1  # the model is not known yet


async def test_a_message_with_an_id_and_keys_of_its_client_keeps_them(desk, house):
    session_id = await desk.busy()
    house.model.say_text("Two.")
    said = UserMessage(content="And?", message_id="m2", timestamp="", extra={"client_id": "page-2"})
    request = ChatRequest(turn=TurnRequest(messages=(said,)), session_id=session_id)
    queued = await desk.inbox.open(request, when_busy="queue")
    assert queued.message_id == "m2"

    house.model.go_on.set()
    await desk.idle(session_id, messages=4)

    [*_, kept, _] = await house.messages(session_id)
    assert (kept.message_id, kept.content, kept.extra) == ("m2", "And?", {"client_id": "page-2"})


async def test_only_one_message_of_the_user_can_wait(desk):
    session_id = await desk.busy()
    said = UserMessage(content="And?", message_id="m2", timestamp="")
    for messages in ((said, said), (AssistantMessage(content="x", message_id="a", timestamp=""),)):
        request = ChatRequest(turn=TurnRequest(messages=messages), session_id=session_id)
        with pytest.raises(SessionBusy):
            await desk.inbox.open(request, when_busy="queue")
