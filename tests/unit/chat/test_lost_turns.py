"""A process that was frozen for too long, at any moment of a turn, and wakes when others ended it.

Whatever it does then: nothing is said or saved twice, no number is missing, no tool runs twice, and
what its listener saw is what everybody else is told.
"""

import asyncio
import itertools
import time

import pytest

from chat.errors import TurnInterrupted
from chat.start.turn_request import TurnRequest
from chat.storage.journal import line
from chat.turn import turn_ids
from chat.turn.state_machine import State
from models_app.language_model import CallDelta, Finished, TextDelta
from sessions_app.messages import AssistantMessage, ToolCall, ToolMessage, ToolSpec, UserMessage
from tests.unit.chat.listening import names, read_all
from tests.unit.chat.nodes import Node
from tests.unit.chat.turns import HELLO, WAIT
from tools_app.toolset import Tool, ToolListing, ToolResult


class Marker:
    """A tool that counts its runs by the calls that asked for them."""

    def __init__(self):
        self.calls = []

    async def listing(self, selection=None):
        spec = ToolSpec(name="t", description="T.", parameters={"type": "object"})
        return ToolListing(tools={"t": Tool(spec=spec)})

    async def call_tool(self, invocation):
        self.calls.append((invocation.message_id, invocation.tool_call_id))
        return ToolResult(success=True, result="r")


@pytest.fixture
async def make_nodes(data_dir):
    made = []

    def make(toolset=None):
        first = Node(data_dir, "first", toolset=toolset)
        second = Node(data_dir, "second", beside=first, toolset=toolset)
        made.extend([first, second])
        return first, second

    yield make
    for node in made:
        await node.turns.shutdown(grace_seconds=0)


def say_answer(node):
    node.model.say([TextDelta("Half ")], [TextDelta("an ")], [TextDelta("answer.")], [Finished()])


def say_call(node):
    call = CallDelta(ToolCall(id="c1", name="t", arguments={}))
    node.model.say([TextDelta("Let me."), call], [Finished()])
    say_answer(node)


STEPS = [
    "open a journal",
    "swap a session",
    "have swapped a session",
    "write a line",
    "have written a line",
]


class Freeze:
    """Freezes a node when it makes a step for the nth time, until another one ended its turns."""

    def __init__(self, node, other, step, number, *, is_told):
        self._steps = itertools.count()
        self._node, self._other = node, other
        self._step, self._number, self._is_told = step, number, is_told
        self.is_over = False
        node.at_each_step(self._reach)

    def _reach(self, step):
        if step == self._step and next(self._steps) == self._number:
            self.is_over = True
            self._node.owners.condemn(is_told=self._is_told)
            self._other.recovery.seal_all()


async def run_frozen(node, session_id):
    """Run a turn; return what its listener saw."""
    try:
        turn = await node.turns.start(session_id, HELLO)
    except TurnInterrupted:
        return None, []
    seen = await read_all(turn.first_subscription)
    outcome = await turn.finished()
    return outcome.state, seen


def check_journals(node, session_id, seen):
    """Assert that each journal tells one story, of which the listener saw the beginning."""
    stories = []
    for turn_id in node.journal.turns(session_id):
        events = [entry for entry in node.journal.read(session_id, turn_id).entries if entry.n]
        assert [entry.n for entry in events] == list(range(1, len(events) + 1))
        told = [(entry.n, entry.event, bytes(entry.data).decode()) for entry in events]
        stories.append(told)
        if told:
            assert [name for _, name, _ in told].count("done") == 1
            assert told[-1][1] == "done"
    shown = [(event.number, event.name, event.data) for event in seen]
    assert not shown or any(story[: len(shown)] == shown for story in stories)


def check_messages(messages):
    """Assert that nothing is there twice, and no call has two results."""
    ids = [message.message_id for message in messages]
    assert len(ids) == len(set(ids))
    assert sum(isinstance(message, UserMessage) for message in messages) == 1
    results = [m.tool_call_id for m in messages if isinstance(m, ToolMessage)]
    asked = [c.id for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
    assert all(results.count(call_id) <= asked.count(call_id) for call_id in results)


def check_text(messages, seen):
    """Assert that the text that was shown is in the session."""
    answers = " ".join(m.content for m in messages if isinstance(m, AssistantMessage))
    said = [event.data for event in seen if event.name == "content_delta"]
    for piece in ("Let me.", "Half ", "an ", "answer."):
        if any(piece in data for data in said):
            assert piece.strip() in answers


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("say", [say_answer, say_call])
@pytest.mark.parametrize("step", STEPS)
async def test_a_node_that_is_frozen_at_any_step_says_and_saves_nothing_twice(
    make_nodes, step, say, is_told
):
    for number in itertools.count():
        tools = Marker()
        node, other = make_nodes(tools)
        for each in (node, node, other):
            say(each)
        session_id = await node.new_session(tools=["t"])
        freeze = Freeze(node, other, step, number, is_told=is_told)
        async with asyncio.timeout(20):
            state, seen = await run_frozen(node, session_id)
            while node.repository.claim_of(session_id):  # its own process lets go of it
                await asyncio.sleep(0.001)
        if not freeze.is_over:
            break
        await asyncio.to_thread(other.recovery.seal_all)
        assert other.repository.claims() == []
        assert other.journal.unended_sessions() == []

        check_journals(other, session_id, seen)
        messages = await other.messages(session_id)
        check_messages(messages)
        check_text(messages, seen)
        assert len(tools.calls) == len(set(tools.calls))
        if state is State.LOST:
            assert "done" not in names(seen)

        turn = await other.turns.start(session_id, TurnRequest())
        assert (await turn.finished()).state is State.COMPLETED
        check_messages(await other.messages(session_id))
        assert len(tools.calls) == len(set(tools.calls))
    assert number


async def test_all_turns_of_a_process_that_was_given_up_end_and_it_begins_new_ones(make_nodes):
    node, other = make_nodes()
    sessions = [await node.new_session() for _ in range(3)]
    turns = []
    for session_id in sessions:
        node.model.say([TextDelta("Half")], WAIT)
        turns.append(await node.turns.start(session_id, HELLO))
        assert await turns[-1].first_subscription.next()
    node.owners.condemn()
    for turn in turns:
        async with asyncio.timeout(20):
            seen = await read_all(turn.first_subscription)
        assert (await turn.finished()).state is State.LOST
        assert "done" not in names(seen)
    say_answer(node)
    turn = await node.turns.start(await node.new_session(), HELLO)
    assert (await turn.finished()).state is State.COMPLETED
    await asyncio.to_thread(other.recovery.seal_all)
    for turn in turns:
        assert other.journal.has_ended(turn.session_id, turn.turn_id)


async def test_a_turn_that_is_lost_before_its_first_event_is_a_plain_error(make_nodes):
    node, _ = make_nodes()
    node.model.say(WAIT)
    session_id = await node.new_session()
    turn = await node.turns.start(session_id, HELLO)
    await node.model.asked.wait()
    node.owners.condemn()
    with pytest.raises(TurnInterrupted) as raised:
        await turn.committed()
    assert raised.value.details == {"session_id": session_id, "message_saved": True}


async def test_a_first_event_that_was_never_kept_is_none(make_nodes):
    node, other = make_nodes()
    say_answer(node)
    session_id = await node.new_session()
    Freeze(node, other, "write a line", 0, is_told=False)
    turn = await node.turns.start(session_id, HELLO)
    assert await read_all(turn.first_subscription) == []
    await turn.finished()
    with pytest.raises(TurnInterrupted):
        await turn.committed()


async def test_a_turn_begins_although_a_sealer_fences_it_off_from_its_predecessor(make_nodes):
    node, other = make_nodes()
    node.model.say([TextDelta("Half")], WAIT)
    session_id = await node.new_session()
    lost = await node.turns.start(session_id, HELLO)
    assert await lost.first_subscription.next()
    fences = []

    def fence_off(step):
        if step == "write a line" and len(fences) < 2:
            fences.append(other.journal.take_over(session_id, lost.turn_id))

    node.owners.condemn(is_told=False)
    third = Node(node.data_dir, "third", beside=node)
    third.at_each_step(fence_off)
    say_answer(third)
    turn = await third.turns.start(session_id, TurnRequest(message="And?"))
    assert len(fences) == 2
    assert third.journal.has_ended(session_id, lost.turn_id)
    assert (await turn.finished()).state is State.COMPLETED
    check_journals(other, session_id, [])


async def test_no_tool_starts_in_a_process_that_may_have_been_given_up(make_nodes):
    tools = Marker()
    node, _ = make_nodes(tools)
    say_call(node)
    node.owners.holds = lambda: False
    session_id = await node.new_session(tools=["t"])
    turn = await node.turns.start(session_id, HELLO)
    outcome = await turn.finished()
    assert (outcome.state, outcome.error.code) == (State.FAILED, "TURN_INTERRUPTED")
    assert tools.calls == []


async def test_who_follows_a_silent_turn_reads_no_session(make_nodes, monkeypatch):
    node, other = make_nodes()
    node.model.say([TextDelta("Half ")], WAIT, [TextDelta("an answer.")], [Finished()])
    session_id = await node.new_session()
    turn = await node.turns.start(session_id, HELLO)
    assert await turn.first_subscription.next()
    monkeypatch.setattr(other.remote, "_settle_seconds", 0.001)
    follower = await other.turns.attach(session_id, None)
    reading = asyncio.create_task(read_all(follower))
    before, looks = other.repository.loads, other.journal.looks
    async with asyncio.timeout(20):
        while other.journal.looks < looks + 10:
            await asyncio.sleep(0.001)
    assert other.repository.loads == before
    node.model.go_on.set()
    assert names(await reading)[-1] == "done"


class Clock:
    """A clock that is set before a node does something."""

    def __init__(self, monkeypatch):
        self._now = time.time_ns
        self.ahead_seconds = 0
        monkeypatch.setattr(turn_ids.time, "time_ns", self)

    def __call__(self):
        return self._now() + self.ahead_seconds * 10**9


async def test_nodes_whose_clocks_are_an_hour_apart_keep_the_order_of_turns(
    make_nodes, monkeypatch
):
    clock = Clock(monkeypatch)
    ahead, behind = make_nodes()
    session_id = await ahead.new_session()
    begun = []
    for node in (ahead, behind, ahead, behind):
        clock.ahead_seconds = 3600 if node is ahead else -3600
        say_answer(node)
        turn = await node.turns.start(session_id, TurnRequest(message="And?"))
        seen = await read_all(turn.first_subscription)
        assert (await turn.finished()).state is State.COMPLETED
        begun.append(turn.turn_id)
        other = behind if node is ahead else ahead
        told = await read_all(await other.turns.attach(session_id, None))
        assert [(event.number, event.data) for event in told] == [
            (event.number, event.data) for event in seen
        ]
    assert begun == sorted(begun)
    assert ahead.journal.turns(session_id) == begun


async def test_a_dead_turn_of_a_node_whose_clock_is_ahead_is_sealed_by_one_that_is_behind(
    make_nodes, monkeypatch
):
    clock = Clock(monkeypatch)
    ahead, behind = make_nodes()
    session_id = await ahead.new_session()
    clock.ahead_seconds = 3600
    ahead.model.say([TextDelta("Half")], WAIT)
    turn = await ahead.turns.start(session_id, HELLO)
    while (await turn.first_subscription.next())[-1].name != "content_delta":
        pass
    clock.ahead_seconds = -3600
    ahead.owners.condemn()
    say_answer(behind)
    following = await behind.turns.start(session_id, TurnRequest(message="And?"))
    assert (await following.finished()).state is State.COMPLETED
    assert [message.content for message in await behind.messages(session_id)] == [
        "Hello!",
        "Half",
        "And?",
        "Half an answer.",
    ]
    assert behind.journal.has_ended(session_id, turn.turn_id)
    assert behind.journal.turns(session_id) == [turn.turn_id, following.turn_id]


async def test_a_session_that_is_deleted_takes_the_journals_of_a_clock_that_is_ahead(
    make_nodes, monkeypatch
):
    clock = Clock(monkeypatch)
    ahead, behind = make_nodes()
    session_id = await ahead.new_session()
    clock.ahead_seconds = 3600
    writer = ahead.journal.open(session_id, turn_ids.new_turn_id(), owner=ahead.owners.mine())
    writer.append(line(1, "turn_started", "{}"))
    await writer.flushed()
    ahead.owners.condemn()
    behind.repository.delete(session_id)
    await asyncio.to_thread(behind.recovery.seal_all)
    assert behind.journal.unended_sessions() == []
