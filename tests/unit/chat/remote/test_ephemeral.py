"""Turns without a saved session: the same engine, and nothing is left of them."""

import asyncio
import os

import msgspec
import pytest

from chat.approvals.confirmation import Decision
from chat.errors import NoActiveTurn, ShuttingDown, TooManyTurns
from chat.live_turn import LiveTurn
from chat.service import ChatRequest, ChatService
from chat.start.turn_limits import TurnPlaces
from chat.start.turn_request import TurnRequest
from chat.turn.state_machine import State
from models_app.errors import OllamaError, ThinkingNotSupported
from models_app.language_model import Finished, TextDelta
from sessions_app.errors import SessionNotFound
from sessions_app.messages import AssistantMessage
from tests.unit.chat.conftest import House, NoTools
from tests.unit.chat.keys import keys_in
from tests.unit.chat.listening import names, read_all
from tests.unit.chat.turns import Calculator, call

WAIT = ...  # the model stays silent from here on
HELLO = ChatRequest(turn=TurnRequest(message="Hello!"), model="m", ephemeral=True)
DONE = Finished(done_reason="stop")


class TwoHouses:
    """Saved conversations and ephemeral ones, with the limits that they share."""

    def __init__(self, data_dir, toolset=None, *, active=10, per_client=0):
        places = TurnPlaces(active, per_client)
        toolset = toolset or NoTools()
        self.directory = data_dir / "ephemeral"
        self.saved = House(data_dir, toolset, places=places)
        self.ephemeral = House(self.directory, toolset, places=places, ephemeral=True)
        self.model = self.ephemeral.model
        self.chat = ChatService(
            saved=self.saved.space,
            ephemeral=self.ephemeral.space,
            keys=keys_in(data_dir / ".mochi" / "keys"),
            default_model=self.saved.default_model,
        )

    async def is_known(self, session_id):
        try:
            await asyncio.to_thread(self.ephemeral.sessions.get, session_id)
        except SessionNotFound:
            return False
        return True

    async def gone(self, session_id):
        """Wait until nothing of a session is left but empty directories and locks."""
        while await asyncio.to_thread(self.left_of, session_id):
            await asyncio.sleep(0.005)

    def left_of(self, session_id):
        return [
            f"{folder}/{name}"
            for folder, _, names in os.walk(self.directory)
            for name in names
            if session_id in name or folder.endswith(session_id)
        ]

    async def tidy(self, age=0.0):
        """Do what housekeeping does."""
        recovery = self.ephemeral.recovery
        await asyncio.to_thread(recovery.seal_all)
        await asyncio.to_thread(self.ephemeral.sweep, age)
        await asyncio.to_thread(self.ephemeral.ephemeral.forget_ended)


@pytest.fixture(autouse=True)
async def in_time():
    async with asyncio.timeout(30):
        yield


@pytest.fixture
async def make(data_dir):
    made = []

    def make(toolset=None, **limits):
        made.append(TwoHouses(data_dir, toolset, **limits))
        return made[-1]

    yield make
    for houses in made:
        await houses.chat.shutdown(0)


@pytest.fixture
def houses(make):
    return make()


async def heard(turn):
    """Read a turn's stream to its end, as a client does, and leave."""
    await turn.committed()
    events = await read_all(turn.listener)
    turn.leave()
    return events


async def test_a_turn_leaves_nothing_behind(houses):
    houses.model.say_text("Hi")
    turn = await houses.chat.open(HELLO)
    events = await heard(turn)
    assert names(events) == ["turn_started", "content_delta", "message_complete", "done"]
    await houses.gone(turn.session_id)
    assert not (await asyncio.to_thread(houses.saved.sessions.list)).sessions
    marks = await asyncio.to_thread(lambda: list(houses.directory.rglob("*.deleted")))
    assert marks == []  # one for every request would be there for a month


async def test_who_still_reads_gets_everything_before_it_goes(houses):
    houses.model.say_text("Hi", " there")
    turn = await houses.chat.open(HELLO)
    outcome = await turn.finished()
    assert outcome.message.content == "Hi there"
    session = await asyncio.to_thread(houses.ephemeral.sessions.get, turn.session_id)
    assert [message.content for message in session.messages] == ["Hello!", "Hi there"]
    assert names(await heard(turn))[-1] == "done"
    await houses.gone(turn.session_id)


async def test_a_cancelled_turn_goes_too(houses):
    houses.model.say([TextDelta("Half")], WAIT)
    turn = await houses.chat.open(HELLO)
    await houses.model.asked.wait()
    here = await houses.chat.space_with(turn.session_id)
    report = await here.turns.cancel(turn.session_id)
    assert report.partial_content == "Half"
    assert names(await heard(turn))[-2:] == ["cancelled", "done"]
    await houses.gone(turn.session_id)


async def test_a_turn_whose_client_leaves_stops_and_goes(houses):
    houses.model.say([TextDelta("Half")], WAIT)
    turn = await houses.chat.open(HELLO)
    await turn.committed()
    turn.leave()
    assert (await turn.finished()).state is State.CANCELLED
    await houses.gone(turn.session_id)


async def test_a_failed_turn_goes_too(houses):
    houses.model.say([TextDelta("Half")], OllamaError("it broke"))
    turn = await houses.chat.open(HELLO)
    assert names(await heard(turn))[-2:] == ["error", "done"]
    await houses.gone(turn.session_id)


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_turn_that_is_refused_before_its_first_event_goes_and_names_no_session(houses, key):
    houses.model.say(OllamaError("it broke"))
    turn = await houses.chat.open(HELLO, key)
    with pytest.raises(OllamaError) as refused:
        await turn.committed()
    assert not {"session_id", "message_saved"} & refused.value.details.keys()
    turn.leave()
    await houses.gone(turn.session_id)


async def test_a_request_that_can_not_begin_leaves_nothing(houses):
    with pytest.raises(ThinkingNotSupported):
        await houses.chat.open(
            ChatRequest(
                turn=msgspec.structs.replace(HELLO.turn, think=True), model="m", ephemeral=True
            )
        )
    listing = await asyncio.to_thread(houses.ephemeral.sessions.list)
    assert listing.sessions == ()


async def suspended(houses) -> tuple[LiveTurn, str]:
    """Return a turn that ended because its call waits for an approval."""
    houses.model.say([call("c1", a=1, b=2)], [DONE])
    session_id = await houses.ephemeral.new_session(tools=["add"], policy="always_confirm")
    asked = ChatRequest(
        turn=TurnRequest(message="1 + 2?", approvals="suspend"),
        session_id=session_id,
        ephemeral=True,
    )
    turn = await houses.chat.open(asked)
    outcome = await turn.finished()
    assert outcome.state is State.SUSPENDED
    await heard(turn)
    return turn, outcome.confirmations[0].confirmation_id


async def test_a_turn_that_waits_for_an_approval_stays_and_can_be_resumed(make):
    houses = make(Calculator())
    turn, confirmation_id = await suspended(houses)
    await houses.tidy()  # its journal goes, and it stays
    here = await houses.chat.space_with(turn.session_id)
    assert [each.confirmation_id for each in await here.confirmations.pending(turn.session_id)] == [
        confirmation_id
    ]
    await here.confirmations.decide(
        turn.session_id, Decision(confirmation_id=confirmation_id, approved=True)
    )
    houses.model.say_text("3")
    resumed = await houses.chat.open(
        ChatRequest(turn=TurnRequest(), session_id=turn.session_id, ephemeral=True)
    )
    events = await heard(resumed)
    assert "tool_result" in names(events)
    assert names(events)[-2:] == ["message_complete", "done"]
    await houses.gone(turn.session_id)


async def test_a_turn_that_nobody_approves_is_swept(make):
    houses = make(Calculator())
    turn, confirmation_id = await suspended(houses)
    here = await houses.chat.space_with(turn.session_id)
    await here.confirmations.decide(
        turn.session_id, Decision(confirmation_id=confirmation_id, approved=False)
    )
    await houses.tidy(age=3600)
    assert await houses.is_known(turn.session_id)
    await houses.tidy()
    await houses.gone(turn.session_id)


async def test_a_kept_turn_can_be_heard_and_read_until_its_journal_is_swept(houses):
    houses.model.say_text("Hi")
    turn = await houses.chat.open(msgspec.structs.replace(HELLO, keep=True))
    events = await heard(turn)
    here = await houses.chat.space_with(turn.session_id)
    again = await here.turns.attach(turn.session_id, None)
    assert names(await read_all(again)) == names(events)
    await houses.tidy(age=3600)
    [_, answer] = await houses.ephemeral.messages(turn.session_id)
    assert isinstance(answer, AssistantMessage)
    await houses.tidy()
    await houses.gone(turn.session_id)


async def test_a_key_finds_its_turn_again_after_it_has_ended(houses):
    houses.model.say_text("Hi")
    first = await houses.chat.open(HELLO, "k")
    await heard(first)
    again = await houses.chat.open(HELLO, "k")
    assert again.turn_id == first.turn_id
    assert (await again.finished()).message.content == "Hi"
    again.leave()
    assert len(houses.model.requests) == 1


async def test_a_key_of_a_turn_that_is_not_saved_is_swept_with_it(houses, data_dir):
    houses.model.say_text("Hi")
    turn = await houses.chat.open(HELLO, "k")
    await heard(turn)
    keys = data_dir / ".mochi" / "keys"

    def sweep() -> None:
        keys_in(keys).sweep(0.0, houses.ephemeral.journal.all_turns)

    await asyncio.to_thread(sweep)
    assert len(await asyncio.to_thread(lambda: list(keys.glob("*.json")))) == 1
    await houses.tidy()
    await asyncio.to_thread(sweep)
    assert await asyncio.to_thread(lambda: list(keys.glob("*.json"))) == []


async def test_both_kinds_of_turns_share_the_places_of_the_process(make):
    houses = make(active=1)
    houses.model.say([TextDelta("x")], WAIT)
    turn = await houses.chat.open(HELLO)
    with pytest.raises(TooManyTurns):
        await houses.chat.open(ChatRequest(turn=TurnRequest(message="Hello!"), model="m"))
    turn.leave()
    await turn.finished()
    houses.saved.model.say_text("Hi")
    await heard(await houses.chat.open(ChatRequest(turn=HELLO.turn, model="m")))


async def test_both_kinds_of_turns_share_the_places_of_a_client(make):
    houses = make(per_client=1)
    houses.model.say([TextDelta("x")], WAIT)
    turn = await houses.chat.open(HELLO, client="a")
    with pytest.raises(TooManyTurns, match="one client may"):
        await houses.chat.open(ChatRequest(turn=HELLO.turn, model="m"), client="a")
    turn.leave()


async def test_both_kinds_of_turns_end_with_the_process(houses):
    houses.model.say([TextDelta("x")], WAIT)
    houses.saved.model.say([TextDelta("x")], WAIT)
    turns = [
        await houses.chat.open(HELLO),
        await houses.chat.open(ChatRequest(turn=HELLO.turn, model="m")),
    ]
    await houses.model.asked.wait()
    await houses.saved.model.asked.wait()
    await houses.chat.shutdown(0)
    for turn in turns:
        assert (await turn.finished()).state is State.INTERRUPTED
        assert names(await heard(turn))[-2:] == ["error", "done"]
    with pytest.raises(ShuttingDown):
        await houses.chat.open(HELLO)
    await houses.chat.shutdown(0)  # waits for what goes with the last listener
    assert await asyncio.to_thread(houses.left_of, turns[0].session_id) == []


async def test_another_process_that_cancels_a_turn_reads_how_it_ended(houses, data_dir):
    houses.model.say([TextDelta("Half")], WAIT)
    turn = await houses.chat.open(HELLO)
    await houses.model.asked.wait()
    other = TwoHouses(data_dir)
    there = await other.chat.space_with(turn.session_id)
    assert there is other.ephemeral.space
    report = await there.turns.cancel(turn.session_id)
    assert report.partial_content == "Half"
    await heard(turn)
    await other.chat.shutdown(0)
    await houses.tidy()
    await houses.gone(turn.session_id)


async def test_a_dead_process_leaves_a_turn_that_is_sealed_and_swept(
    houses, data_dir, tmp_path, after_a_kill
):
    houses.model.say([TextDelta("Half")], WAIT)
    turn = await houses.chat.open(HELLO)
    await turn.committed()
    await houses.model.asked.wait()
    image = await after_a_kill(houses.saved)
    next_one = TwoHouses(image.data_dir)
    await next_one.tidy(age=3600)
    [_, answer] = await next_one.ephemeral.messages(turn.session_id)
    assert (answer.content, answer.interrupted) == ("Half", True)
    with pytest.raises(NoActiveTurn):
        await next_one.ephemeral.turns.cancel(turn.session_id)
    await next_one.tidy()
    await next_one.gone(turn.session_id)
    turn.leave()


async def test_a_journal_without_a_session_does_not_wait_for_it(houses):
    journal = houses.ephemeral.journal
    writer = await asyncio.to_thread(journal.open, "a1b2c3d4e5", "0" * 20, owner="")
    await houses.tidy()
    assert await asyncio.to_thread(journal.turns, "a1b2c3d4e5") == ["0" * 20]  # a turn begins
    writer.close()
    await houses.tidy()
    assert await asyncio.to_thread(journal.turns, "a1b2c3d4e5") == []


async def test_a_session_that_can_not_be_read_is_swept(houses):
    session_id = await houses.ephemeral.new_session()
    path = houses.ephemeral.sessions_dir / f"{session_id}.json"
    await asyncio.to_thread(path.write_bytes, b"")  # as a crash of the machine leaves it
    await houses.tidy()
    await houses.gone(session_id)


async def test_a_session_that_is_in_neither_place_counts_as_saved(houses):
    assert await houses.chat.space_with("a1b2c3d4e5") is houses.saved.space
    session_id = await houses.saved.new_session()
    assert await houses.chat.space_with(session_id) is houses.saved.space
