"""Turns whose disk takes nothing any more: what was seen is kept, and no tool runs twice."""

import asyncio

import pytest

from chat.errors import NoActiveTurn, TurnCrashed
from chat.turn.state_machine import Action, Input, State
from models_app.language_model import CallDelta, Finished, TextDelta
from sessions_app.errors import StorageError
from sessions_app.messages import ToolCall, ToolMessage, ToolSpec
from sessions_app.store import session_files
from tests.unit.chat.disk import FailingDisk
from tests.unit.chat.listening import read_all
from tests.unit.chat.turns import HELLO, listen, names, run
from tools_app.toolset import Tool, ToolListing, ToolResult

AGAIN = type(HELLO)()
INTERRUPTED = "interrupted, not run again"
FAULTS = [FailingDisk.fill, FailingDisk.turn_read_only]


@pytest.fixture
def disk(data_dir):
    with FailingDisk(data_dir).installed() as disk:
        yield disk


class Counter:
    """A tool that counts its runs, and does something while it runs."""

    def __init__(self, does=lambda: None, result="done"):
        self.runs = 0
        self._does = does
        self._result = result

    async def listing(self, selection=None):
        spec = ToolSpec(name="count", description="Counts.", parameters={"type": "object"})
        return ToolListing(tools={"count": Tool(spec=spec)})

    async def call_tool(self, invocation):
        self.runs += 1
        self._does()
        return ToolResult(success=True, result=self._result)


def call(call_id="c1"):
    return CallDelta(ToolCall(id=call_id, name="count", arguments={}))


async def results(house, session_id):
    kept = await house.messages(session_id)
    return [message.content for message in kept if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_tool_whose_result_could_not_be_saved_is_never_run_again(make_house, disk, fault):
    tools = Counter(does=lambda: fault(disk))
    house = make_house(tools)
    house.model.say([call()], [Finished()])
    session_id = await house.new_session(tools=["count"])
    events, outcome = await run(house, session_id)
    assert names(events)[-2:] == ["error", "done"]
    assert outcome.state is State.UNSAVED

    with pytest.raises(StorageError):  # nobody can seal it yet, and that is said
        await house.turns.start(session_id, AGAIN)
    disk.mend()
    house.model.say_text("Counted.")
    _, outcome = await run(house, session_id, AGAIN)

    assert outcome.state is State.COMPLETED
    assert tools.runs == 1
    assert await results(house, session_id) == [INTERRUPTED]


async def test_a_result_too_large_for_its_session_is_answered_for_and_not_made_again(
    make_house, monkeypatch
):
    tools = Counter(result="x" * 5000)
    house = make_house(tools)
    house.model.say([call("c1"), call("c2")], [Finished()])
    session_id = await house.new_session(tools=["count"])
    monkeypatch.setattr(session_files, "SIZE_LIMIT", 4000)
    events, _ = await run(house, session_id)
    assert dict(events)["error"]["code"] == "VALIDATION_ERROR"
    house.model.say_text("So be it.")
    _, outcome = await run(house, session_id, AGAIN)
    assert outcome.state is State.COMPLETED
    assert tools.runs == 2
    assert await results(house, session_id) == [INTERRUPTED] * 2


async def test_a_call_that_can_not_be_recorded_does_not_run_and_runs_once_when_it_can(
    make_house, disk, monkeypatch
):
    tools = Counter()
    house = make_house(tools)
    house.model.say([call()], [Finished()])
    session_id = await house.new_session(tools=["count"])
    turn = await house.turns.start(session_id, HELLO)
    approver = turn.engine.actions.approver
    monkeypatch.setattr(approver, "decide", full_then(disk, approver))
    events = await listen(turn)
    await turn.finished()
    assert names(events) == ["turn_started", "error", "done"]
    assert tools.runs == 0
    disk.mend()
    house.model.say_text("Counted.")
    await run(house, session_id, AGAIN)
    assert tools.runs == 1
    assert await results(house, session_id) == ["done"]


def full_then(disk, approver):
    decide = approver.decide

    async def decide_on_a_full_disk(*arguments, **keys):
        disk.fill()
        return await decide(*arguments, **keys)

    return decide_on_a_full_disk


@pytest.mark.parametrize("fault", FAULTS)
async def test_text_that_a_client_saw_is_sealed_once_the_disk_takes_it(house, disk, fault):
    house.model.say([TextDelta("Half ")], [TextDelta("an ")], ..., [TextDelta("answer")])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    fault(disk)
    house.model.go_on.set()
    events = await listen(turn)
    seen = "".join(data["content"] for name, data in events if name == "content_delta")
    assert names(events)[-2:] == ["error", "done"]
    assert dict(events)["error"]["code"].startswith("STORAGE_")
    assert seen == "Half an"  # nothing was shown that is not on record
    assert (await turn.finished()).state is State.UNSAVED
    assert len(await house.messages(session_id)) == 1  # reading works meanwhile

    disk.mend()
    answer = (await house.messages(session_id))[-1]
    assert (answer.content, answer.interrupted) == ("Half an", True)
    assert await asyncio.to_thread(house.sessions.repository.claim_of, session_id) is None


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_turn_that_could_not_be_saved_can_be_asked_about_cancelled_and_picked_up(
    house, disk, fault
):
    house.model.say([TextDelta("Half")], ..., [TextDelta("answer")])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    fault(disk)
    house.model.go_on.set()
    await turn.finished()
    async with asyncio.timeout(10):
        assert await house.turns.active(session_id) is None
        with pytest.raises(NoActiveTurn):
            await house.turns.cancel(session_id)
        for position in (None, (turn.turn_id, 1), (turn.turn_id, 2)):
            listener = await house.turns.attach(session_id, position)
            received = [event.name for event in await read_all(listener)]
            assert received.count("error") == received.count("done") == 1
        assert await house.turns.attach(session_id, (turn.turn_id, 4)) is None
        disk.mend()
        listener = await house.turns.attach(session_id, (turn.turn_id, 2))
        received = await read_all(listener)
    assert any("TURN_INTERRUPTED" in event.data for event in received)


async def test_a_turn_that_could_not_be_saved_is_swept_up_by_housekeeping(house, disk):
    house.model.say([TextDelta("Half")], ..., [TextDelta("answer")])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    disk.fill()
    house.model.go_on.set()
    await turn.finished()
    disk.mend()
    await asyncio.to_thread(house.sweep, 0)
    await asyncio.to_thread(house.recovery.seal_all)
    session = await asyncio.to_thread(house.sessions.repository.load, session_id)
    assert session.messages[-1].content == "Half"
    assert house.journal.has_ended(session_id, turn.turn_id)


@pytest.mark.parametrize("last", ["SAVE_INTERRUPTED", "LEAVE", "REPORT_ERROR", "SAVE_CANCELLED"])
@pytest.mark.parametrize("begun", [True, False])
async def test_whatever_fails_while_a_turn_is_ended_its_listeners_get_its_end(
    house, last, begun, monkeypatch
):
    """Also a defect: nobody waits for ever, and the session can be used again."""
    house.model.say(*[[TextDelta("Half")]] * begun, ..., [TextDelta("answer")])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()

    async def fail():
        raise RuntimeError("a defect")

    failing = {Action[name] for name in ({last, "SAVE_INTERRUPTED"} if last == "LEAVE" else {last})}
    perform = turn.engine.actions.perform

    def perform_or_fail(action):
        return fail() if action in failing else perform(action)

    monkeypatch.setattr(turn.engine.actions, "perform", perform_or_fail)
    reason = Input.CANCEL_REQUESTED if last == "SAVE_CANCELLED" else Input.ERROR
    async with asyncio.timeout(10):
        turn.engine.stop(reason)
        events = await listen(turn)
        assert names(events)[-2:] == (["error", "done"] if begun else [])
        outcome = await turn.finished()
        assert outcome.error.code == "INTERNAL_ERROR"
        if not begun:
            with pytest.raises(TurnCrashed):
                await turn.committed()
    house.model.say_text("works")
    _, outcome = await run(house, session_id, AGAIN)
    assert outcome.state is State.COMPLETED
    texts = [message.content for message in await house.messages(session_id)]
    assert texts in (["Hello!", "Half", "works"], ["Hello!", "works"])
