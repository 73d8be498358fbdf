"""A process that stops lets go of the turns with which another one goes on."""

import asyncio

import pytest

from chat.remote.replay import replay
from chat.storage.journal import whole_journal
from chat.stream.events import Done, StatusChanged
from chat.stream.notes import HandedOver, JobNoted
from chat.turn.state_machine import State
from models_app.language_model import Finished, TextDelta
from sessions_app.messages import AssistantMessage, ToolMessage
from tests.unit.chat.turns import HELLO, WAIT, Calculator, call, listen, names

LONG = 600  # longer than any test may take


@pytest.fixture
async def begin(make_house):
    """Start a turn with which another process goes on."""
    houses = []

    async def start(*, policy="never_confirm", hands_over=True):
        house = make_house(Calculator())
        houses.append(house)
        session_id = await house.new_session(tools=["add"], policy=policy)

        async def go(*scripts):
            for script in scripts:
                house.model.say(*script)
            turn = await house.turns.start(session_id, HELLO)
            turn.noted = JobNoted(detached=hands_over, keyed=False, request={})
            return turn

        return house, go

    yield start
    for house in houses:
        await house.turns.shutdown(grace_seconds=0)


async def entries(house, turn):
    return await asyncio.to_thread(
        lambda: list(whole_journal(house.journal, turn.session_id, turn.turn_id))
    )


async def last_message(house, turn):
    session = await asyncio.to_thread(house.repository.load, turn.session_id)
    return session.messages[-1]


async def check_left(house, turn):
    """Check that a turn is as a dead process leaves it, but for the note; return its events."""
    events = await listen(turn)
    assert (await turn.finished()).state is State.HANDED_OVER
    assert not {"error", "cancelled", Done.event} & set(names(events))
    assert (await entries(house, turn))[-1].event == HandedOver.event
    assert await asyncio.to_thread(house.journal.was_closed, turn.session_id, turn.turn_id)
    claim = await asyncio.to_thread(house.repository.claim_of, turn.session_id)
    assert (claim.turn_id, claim.alive) == (turn.turn_id, False)
    return events


async def test_a_turn_in_the_middle_of_a_text_runs_on_and_is_let_go_at_the_end_of_the_grace(begin):
    house, go = await begin()
    turn = await go([[TextDelta("Half")], WAIT])
    await house.model.asked.wait()
    await house.turns.shutdown(grace_seconds=0)
    events = await check_left(house, turn)
    assert names(events) == ["turn_started", "content_delta"]
    assert replay(await entries(house, turn)).text == "Half"
    assert not isinstance(await last_message(house, turn), AssistantMessage)


async def test_a_turn_that_ends_within_the_grace_is_not_handed_over(begin):
    house, go = await begin()
    turn = await go([WAIT, [TextDelta("Whole.")], [Finished()]])
    await house.model.asked.wait()
    stopping = asyncio.create_task(house.turns.shutdown(LONG))
    await asyncio.sleep(0)
    house.model.go_on.set()
    assert (await turn.finished()).state is State.COMPLETED
    await stopping


async def test_a_turn_that_waits_for_an_approval_is_let_go_at_once(begin):
    house, go = await begin(policy="always_confirm")
    turn = await go([[call("c1", a=1, b=2)], [Finished()]])
    while not turn.engine.actions.approver.is_waiting:
        await asyncio.sleep(0.001)
    await house.turns.shutdown(LONG)
    events = await check_left(house, turn)
    assert names(events)[-1] == StatusChanged.event
    assert len(await house.confirmations.pending(turn.session_id)) == 1


async def test_a_turn_that_asks_only_then_is_let_go_when_it_does(begin):
    house, go = await begin(policy="always_confirm")
    turn = await go([WAIT, [call("c1", a=1, b=2)], [Finished()]])
    await house.model.asked.wait()
    stopping = asyncio.create_task(house.turns.shutdown(LONG))
    await asyncio.sleep(0)
    house.model.go_on.set()
    await stopping
    await check_left(house, turn)
    assert len(await house.confirmations.pending(turn.session_id)) == 1


async def test_a_turn_is_let_go_between_two_rounds_and_its_results_are_saved(begin):
    house, go = await begin()
    turn = await go([WAIT, [call("c1", a=1, b=2)], [Finished()]])
    await house.model.asked.wait()
    stopping = asyncio.create_task(house.turns.shutdown(LONG))
    await asyncio.sleep(0)
    house.model.go_on.set()
    await stopping
    events = await check_left(house, turn)
    assert names(events)[-1] == "tool_result"
    assert isinstance(await last_message(house, turn), ToolMessage)
    assert len(house.model.requests) == 1


async def test_a_turn_in_a_tool_is_let_go_without_a_result(begin):
    house, go = await begin()
    turn = await go([[call("c1", a=1, b=2, wait=True)], [Finished()]])
    await house.preparer.toolset.waiting.wait()
    await house.turns.shutdown(grace_seconds=0)
    events = await check_left(house, turn)
    assert names(events)[-1] == "tool_call"
    assert replay(await entries(house, turn)).started_calls


async def test_a_turn_that_said_nothing_yet_has_its_first_event_when_it_is_let_go(begin):
    house, go = await begin()
    turn = await go([WAIT])
    await house.model.asked.wait()
    await house.turns.shutdown(grace_seconds=0)
    assert names(await check_left(house, turn)) == ["turn_started"]
    await turn.committed()


async def test_a_turn_that_nobody_comes_back_for_is_interrupted_as_before(begin):
    house, go = await begin(policy="always_confirm", hands_over=False)
    turn = await go([[call("c1", a=1, b=2)], [Finished()]])
    while not turn.engine.actions.approver.is_waiting:
        await asyncio.sleep(0.001)
    await house.turns.shutdown(grace_seconds=0)
    assert names(await listen(turn))[-2:] == ["error", "done"]
    assert (await turn.finished()).state is State.INTERRUPTED
