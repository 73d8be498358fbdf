"""A stopped turn ends, whatever swallows the cancellation on its way."""

import asyncio

import pytest

from chat.approvals.confirmation import Decision
from chat.turn import engine
from chat.turn.actions import TurnActions
from chat.turn.state_machine import Input, State
from models_app.language_model import CallDelta, Finished, TextDelta
from sessions_app.messages import ToolCall, ToolMessage, ToolSpec
from tests.unit.chat.turns import HELLO, names, run
from tools_app.toolset import Tool, ToolListing


class Deaf:
    """A tool that does not hear its first cancellations."""

    def __init__(self, deaf_for=0):
        self.runs = 0
        self.heard = 0
        self.waiting = asyncio.Event()
        self._deaf_for = deaf_for

    async def listing(self, selection=None):
        spec = ToolSpec(name="wait", description="Waits.", parameters={"type": "object"})
        return ToolListing(tools={"wait": Tool(spec=spec)})

    async def call_tool(self, invocation):
        self.runs += 1
        self.waiting.set()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.heard += 1
                if self.heard > self._deaf_for:
                    raise


def call():
    return CallDelta(ToolCall(id="c1", name="wait", arguments={}))


@pytest.fixture(autouse=True)
async def in_time():
    async with asyncio.timeout(20):
        yield


@pytest.mark.parametrize("ticks", range(6))
async def test_a_cancel_beside_an_approval_stops_the_turn(make_house, ticks):
    house = make_house(tools := Deaf())
    house.model.say([call()], [Finished()])
    session_id = await house.new_session(tools=["wait"], policy="always_confirm")
    turn = await house.turns.start(session_id, HELLO)
    while not (asked := await asyncio.to_thread(house.confirmation_store.pending, session_id)):
        await turn.first_subscription.next()
    await asyncio.sleep(0.02)  # it waits for the answer
    await asyncio.to_thread(
        house.confirmation_store.decide,
        session_id,
        Decision(confirmation_id=asked[0].confirmation_id, approved=True),
    )
    house.turns.notice_decision(turn.turn_id)
    for _ in range(ticks):
        await asyncio.sleep(0)
    report = await house.turns.cancel(session_id)
    assert report.turn_id == turn.turn_id
    assert tools.runs == tools.heard
    results = [m for m in await house.messages(session_id) if isinstance(m, ToolMessage)]
    assert [result.content for result in results] == ["The call was cancelled."]


@pytest.mark.parametrize(
    ("step", "policy"), [("save_round", "always_confirm"), ("ask_approval", "never_confirm")]
)
async def test_a_swallowed_cancellation_is_seen_before_the_next_step(
    make_house, monkeypatch, step, policy
):
    house = make_house(tools := Deaf())
    house.model.say([call()], [Finished()])
    session_id = await house.new_session(tools=["wait"], policy=policy)
    perform = getattr(TurnActions, step)

    async def swallow(actions):
        house.turns.get(session_id).engine.stop(Input.CANCEL_REQUESTED)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(1)
        return await perform(actions)

    monkeypatch.setattr(TurnActions, step, swallow)
    events, outcome = await run(house, session_id)
    assert outcome.state is State.CANCELLED
    assert tools.runs == 0
    assert "tool_call_confirmation_required" not in names(events)
    assert names(events)[-2:] == ["cancelled", "done"]


async def test_a_model_that_swallows_it_is_left_with_its_next_batch(house, monkeypatch):
    stream = house.model.stream

    async def deaf(request):
        async for batch in stream(request):
            yield batch
        with pytest.raises(asyncio.CancelledError):
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(0)
            yield [TextDelta("and on ")]

    monkeypatch.setattr(house.model, "stream", deaf)
    house.model.say([TextDelta("On ")])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await turn.first_subscription.next()
    await asyncio.sleep(0.01)
    report = await house.turns.cancel(session_id)
    assert report.partial_content == "On"


async def test_an_error_that_a_library_made_of_it_is_a_cancellation_all_the_same(
    house, monkeypatch
):
    async def translating(request):
        yield [TextDelta("On ")]
        with pytest.raises(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise RuntimeError("the connection was closed")

    monkeypatch.setattr(house.model, "stream", translating)
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await turn.first_subscription.next()
    await asyncio.sleep(0.01)
    await house.turns.cancel(session_id)
    outcome = await turn.finished()
    assert (outcome.state, outcome.error) == (State.CANCELLED, None)


async def test_a_tool_that_swallows_it_is_cancelled_again(make_house, monkeypatch):
    monkeypatch.setattr(engine, "INSIST_SECONDS", 0.01)
    house = make_house(tools := Deaf(deaf_for=3))
    house.model.say([call()], [Finished()])
    session_id = await house.new_session(tools=["wait"])
    await house.turns.start(session_id, HELLO)
    await tools.waiting.wait()
    report = await house.turns.cancel(session_id)
    assert report.stopped["tools"] == ["wait"]
    assert tools.heard > 3


async def test_saving_what_a_stopped_turn_left_is_not_disturbed(make_house, monkeypatch):
    monkeypatch.setattr(engine, "INSIST_SECONDS", 0.001)
    house = make_house(Deaf())
    house.model.say([TextDelta("Half")], ..., [TextDelta("answer")])
    session_id = await house.new_session()
    save = TurnActions.finish

    async def slowly(engine, message):
        await asyncio.sleep(0.05)
        await save(engine, message)

    monkeypatch.setattr(TurnActions, "finish", slowly)
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    await house.turns.cancel(session_id)
    assert (await turn.finished()).state is State.CANCELLED
