"""A turn of a dead process goes on in another one, whatever dies while it is taken over."""

import asyncio
import itertools
import time
from contextlib import suppress

import msgspec
import pytest

from chat.remote.continuing import ContinuingRules
from chat.remote.recovery import ToBeContinued
from chat.start.turn_request import TurnRequest
from models_app.errors import ModelNotFound
from models_app.language_model import Finished, TextDelta
from sessions_app.messages import ToolMessage, UserMessage
from sessions_app.session import append_messages
from tests.unit.chat.inbox.conftest import Desk
from tests.unit.chat.nodes import Node
from tests.unit.chat.turns import WAIT, Calculator, call

DETACHED = TurnRequest(message="Hello!", detached=True)
ANSWER = ("An ", "answer.")


class GoingOn(Node):
    rules = ContinuingRules(on_crash="continue", resumes=100)


class StuckCalculator(Calculator):
    """Begins its calls, and never ends them."""

    async def call_tool(self, invocation):
        self.waiting.set()
        await asyncio.Event().wait()


class Died(BaseException):
    """Whoever raises this makes no further step."""


@pytest.fixture
async def make_node(data_dir):
    made = []

    def make(name, beside=None):
        node = GoingOn(data_dir, name, beside=beside)
        node.model.say_text(*ANSWER)
        node.turns.go_on()
        made.append(node)
        return node

    yield make
    for node in made:
        await node.turns.shutdown(grace_seconds=0)


@pytest.fixture
async def wreck(make_node):
    """Return a node that was given up in mid-text, and its session."""
    node = make_node("owner")
    session_id = await node.new_session()
    node.model.scripts.clear()
    node.model.say([TextDelta("Half an")], WAIT, [Finished()])
    await node.turns.start(session_id, DETACHED)
    async with asyncio.timeout(10):
        while "content_delta" not in [each.event for each in await events_of(node, session_id)]:
            await asyncio.sleep(0)
    node.owners.condemn(is_told=False)
    return node, session_id


async def events_of(node, session_id):
    [turn_id] = node.journal.turns(session_id)
    entries = node.journal.read(session_id, turn_id).entries
    return [entry for entry in entries if entry.n]


async def until_ended(node, session_id):
    [turn_id] = node.journal.turns(session_id)
    async with asyncio.timeout(30):
        while not node.journal.has_ended(session_id, turn_id):
            await asyncio.to_thread(node.recovery.seal_all)
            await asyncio.sleep(0.002)
    events = await events_of(node, session_id)
    assert [entry.n for entry in events] == list(range(1, len(events) + 1))
    assert [entry.event for entry in events].count("done") == 1
    return events


async def test_what_was_shown_is_a_variant_of_the_answer_that_replaces_it(wreck, make_node):
    owner, session_id = wreck
    node = make_node("next", beside=owner)
    events = await until_ended(node, session_id)
    names = [entry.event for entry in events]
    assert names[:3] == ["turn_started", "content_delta", "turn_resumed"]
    resumed, started = events[2].value(), events[0].value()
    assert (resumed["keeps"], resumed["discarded"]) == ("results", [started["message_id"]])
    _, answer = await node.messages(session_id)
    assert (answer.content, answer.message_id) == ("An answer.", resumed["message_id"])
    [[shown]] = answer.variants
    assert (shown.content, shown.message_id) == ("Half an", started["message_id"])
    assert shown.interrupted
    assert "cost_usd" not in events[-2].value()["turn_usage"]


async def test_a_turn_is_found_and_goes_on_at_once(wreck, make_node):
    owner, session_id = wreck
    node = make_node("next", beside=owner)
    [turn_id] = node.journal.turns(session_id)
    resumed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look():
        entries = node.journal.read(session_id, turn_id).entries
        if any(entry.event == "turn_resumed" for entry in entries):
            loop.call_soon_threadsafe(resumed.set)

    stop = node.journal.watch(session_id, turn_id, look)
    found = time.perf_counter()
    assert await asyncio.to_thread(node.recovery.seal, session_id)
    async with asyncio.timeout(5):
        await resumed.wait()
    print(f"the first event came after {1000 * (time.perf_counter() - found):.1f} ms")
    stop()
    await until_ended(node, session_id)


@pytest.mark.parametrize("on_crash", ["continue", "seal"])
async def test_a_message_that_the_turn_took_as_its_last_write_is_told_of(
    make_node, data_dir, on_crash
):
    tools = StuckCalculator()
    owner = GoingOn(data_dir, "owner", toolset=tools)
    owner.model.say([call("c1", a=1, b=2)], [Finished()])
    session_id = await owner.new_session(tools=["add"])
    request = msgspec.structs.replace(DETACHED, on_crash=on_crash)
    turn = await owner.turns.start(session_id, request)
    await tools.waiting.wait()
    now = "2026-11-28T12:00:00.000000+00:00"
    how = {"timestamp": now, "turn_id": turn.turn_id}
    result = ToolMessage(content="3", message_id="r", tool_name="add", tool_call_id="c1", **how)
    steer = UserMessage(content="In words!", message_id="steer", **how)

    def take_steer(session):
        return append_messages(session, result, steer, now=now)

    hold = owner.repository.claim_of(session_id).hold
    await asyncio.to_thread(owner.repository.update, session_id, take_steer, hold=hold)
    owner.owners.condemn(is_told=False)
    node = make_node("next", beside=owner)
    events = await until_ended(node, session_id)
    names = [entry.event for entry in events]
    assert names.count("message_taken") == 1
    at = names.index("message_taken")
    assert names[at - 1 : at] == (["turn_resumed"] if on_crash == "continue" else ["tool_call"])
    assert events[at].value() == {
        "message_id": "steer",
        "content": "In words!",
        "user_message_index": 3,
        "when_busy": "steer",
    }
    await owner.turns.shutdown(grace_seconds=0)


STEPS = [
    "reopen a journal",
    "swap a session",
    "have swapped a session",
    "write a line",
    "have written a line",
]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("step", STEPS)
async def test_who_goes_on_may_die_at_each_step(wreck, make_node, step, number):
    owner, session_id = wreck
    dying = make_node("dying", beside=owner)
    # Nobody looks at the tasks of a process that died.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    reached = itertools.count()

    def die(at):
        if at == step and next(reached) >= number:
            dying.owners.condemn(is_told=False)
            raise Died

    dying.at_each_step(die)
    with suppress(Died):
        await asyncio.to_thread(dying.recovery.seal, session_id)
    await asyncio.sleep(0)
    last = make_node("last", beside=owner)
    events = await until_ended(last, session_id)
    assert events[-1].event == "done"
    messages = await last.messages(session_id)
    assert [message.role for message in messages] == ["user", "assistant"]
    assert messages[1].content == "An answer."


async def test_of_four_that_find_a_turn_at_once_one_goes_on(wreck, make_node):
    owner, session_id = wreck
    nodes = [make_node(f"node {number}", beside=owner) for number in range(4)]
    await asyncio.gather(*(asyncio.to_thread(node.recovery.seal, session_id) for node in nodes))
    events = await until_ended(nodes[0], session_id)
    assert [entry.event for entry in events].count("turn_resumed") == 1
    assert sum(len(node.model.requests) for node in nodes) == 1


async def test_a_turn_whose_model_is_gone_ends_with_that(wreck, make_node, monkeypatch):
    owner, session_id = wreck
    node = make_node("next", beside=owner)

    async def is_gone(name):
        raise ModelNotFound(f"model {name!r} not found")

    monkeypatch.setattr(node.model, "describe", is_gone)
    events = await until_ended(node, session_id)
    assert [entry.event for entry in events][-2:] == ["error", "done"]
    assert events[-2].value()["code"] == "MODEL_NOT_FOUND"
    _, answer = await node.messages(session_id)
    assert (answer.content, answer.interrupted) == ("Half an", True)


async def test_without_a_place_the_turn_is_left_to_the_next_who_finds_it(
    wreck, make_node, data_dir
):
    owner, session_id = wreck
    full = GoingOn(data_dir, "full", beside=owner, active=1)
    full.turns.go_on()
    full.model.say([TextDelta("On")], WAIT, [Finished()])
    other = await full.new_session()
    await full.turns.start(other, DETACHED)
    await full.model.asked.wait()
    assert await asyncio.to_thread(full.recovery.seal, session_id)
    assert len(await events_of(full, session_id)) == 2
    node = make_node("next", beside=owner)
    assert (await until_ended(node, session_id))[-1].event == "done"
    await full.turns.shutdown(grace_seconds=0)


@pytest.fixture
async def full(wreck, data_dir):
    """Return a process without a place for the turn that it finds."""
    owner, session_id = wreck
    node = GoingOn(data_dir, "full", beside=owner, active=1)
    node.turns.go_on()
    node.model.say([TextDelta("On")], ..., [Finished()])
    node.model.say_text(*ANSWER)
    turn = await node.turns.start(await node.new_session(), DETACHED)
    await node.model.asked.wait()
    assert await asyncio.to_thread(node.recovery.seal, session_id)
    yield node, session_id
    node.model.go_on.set()
    await turn.finished()
    await node.turns.shutdown(grace_seconds=0)


async def test_a_turn_that_waits_for_a_place_can_be_cancelled(full):
    node, session_id = full
    async with asyncio.timeout(20):
        await node.turns.cancel(session_id)
    assert (await events_of(node, session_id))[-2].event == "cancelled"
    assert len(node.model.requests) == 1


async def test_a_turn_that_waits_for_a_place_goes_on_once_there_is_one(full):
    node, session_id = full
    [turn_id] = node.journal.turns(session_id)
    node.model.go_on.set()
    async with asyncio.timeout(20):
        while not node.journal.has_ended(session_id, turn_id):
            await asyncio.sleep(0.002)
    assert (await node.messages(session_id))[-1].content == "An answer."


async def test_a_message_to_a_turn_that_waits_for_a_place_is_queued(full):
    node, session_id = full
    queued = await Desk(node).queue(session_id, "Later?")
    assert queued.position == 1


async def test_a_turn_whose_takeover_failed_once_goes_on_with_the_next_try(
    wreck, make_node, monkeypatch
):
    owner, session_id = wreck
    node = make_node("next", beside=owner)
    describe, failed = node.model.describe, asyncio.Event()

    async def fail_once(name):
        if not failed.is_set():
            failed.set()
            raise RuntimeError("for a moment")
        return await describe(name)

    monkeypatch.setattr(node.model, "describe", fail_once)
    [turn_id] = node.journal.turns(session_id)
    await asyncio.to_thread(node.recovery.seal, session_id)
    async with asyncio.timeout(20):
        while not failed.is_set() or node.journal.is_being_written(session_id, turn_id):
            await asyncio.sleep(0.002)
    session, claim = node.repository.load_claimed(session_id)
    dead = msgspec.structs.replace(claim, alive=False)  # as nobody writes its journal
    with pytest.raises(ToBeContinued):
        await asyncio.to_thread(node.recovery.recover, session, dead)
    events = await until_ended(node, session_id)
    assert events[-2].event == "message_complete"


async def test_what_a_new_message_finds_is_a_busy_session(wreck, make_node):
    owner, session_id = wreck
    node = make_node("next", beside=owner)
    node.model.scripts.clear()
    node.model.say([TextDelta("On")], WAIT, [Finished()])
    with pytest.raises(Exception, match="has a running turn"):
        await node.turns.start(session_id, DETACHED)
    await node.model.asked.wait()
    active = await node.turns.active(session_id)
    assert (active.state, active.resumes) == ("generating", 1)
    node.model.go_on.set()
    await until_ended(node, session_id)


async def test_a_turn_that_its_living_process_could_not_save_is_sealed(wreck, make_node):
    owner, session_id = wreck
    owner.owners.dead.clear()
    owner.journal.writers[-1].close()  # as it does after it told its clients of the error
    node = make_node("next", beside=owner)
    session, claim = node.repository.load_claimed(session_id)
    dead = msgspec.structs.replace(claim, alive=False)
    sealed = await asyncio.to_thread(node.recovery.recover, session, dead)
    assert sealed.messages[-1].interrupted
    assert node.model.requests == []
