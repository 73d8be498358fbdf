"""Every turn's start and end are seen once, however it ends."""

import logging

import msgspec
import pytest

from chat.start.turn_request import TurnRequest
from chat.turn.observer import ToolEnd, ToolStart, TurnEnd, TurnLog, TurnObservers, TurnStart
from chat.turn.state_machine import Input, State
from models_app.errors import OllamaError
from models_app.language_model import Finished, TextDelta
from sessions_app.messages import Usage
from tests.unit.chat.conftest import SeenTurns
from tests.unit.chat.turns import Calculator, call, run

HELLO = TurnRequest(message="Hello!")


async def test_a_turn_with_tools_is_seen_from_its_start_to_its_end(make_house):
    house = make_house(Calculator())
    house.model.say([call("c1", a=1, b=2)], [Finished()])
    house.model.say_text("Three.")
    session_id = await house.new_session(tools=["add"])

    await run(house, session_id, HELLO)

    (started,), (ended,) = house.seen.started, house.seen.ended
    assert (started.session_id, started.model, started.purpose) == (session_id, "m", "chat")
    assert started.agent is None
    assert [message.content for message in started.said] == ["Hello!"]
    assert ended.start == started
    assert (ended.state, ended.error_code) == (State.COMPLETED, None)
    assert (ended.rounds, ended.tool_calls) == (2, 1)
    assert ended.seconds >= 0
    assert ended.answer.content == "Three."
    assert [request.purpose for request in house.model.requests] == ["chat", "chat"]


async def test_a_tool_call_is_seen_from_its_start_to_its_end(make_house):
    house = make_house(Calculator())
    house.model.say([call("c1", a=1, b=2), call("c2", name="none")], [Finished()])
    house.model.say_text("Three.")
    session_id = await house.new_session(tools=["add"])

    await run(house, session_id, HELLO)

    ends = {end.start.tool_call_id: end for end in house.seen.tools_ended}
    assert {end.start for end in ends.values()} == set(house.seen.tools_started)
    assert (ends["c1"].start.name, ends["c1"].start.session_id) == ("add", session_id)
    assert not ends["c1"].start.is_agent
    assert ends["c1"].start.arguments == {"a": 1, "b": 2}
    assert ends["c1"].outcome == "ok"
    assert ends["c1"].result.result == "3"
    assert ends["c2"].outcome == "TOOL_NOT_FOUND"
    assert ends["c1"].seconds >= 0


async def test_a_tool_call_that_is_stopped_is_seen_as_interrupted(make_house):
    tools = Calculator()
    house = make_house(tools)
    house.model.say([call("c1", wait=True)], [Finished()])
    turn = await house.turns.start(await house.new_session(tools=["add"]), HELLO)
    await tools.waiting.wait()

    turn.engine.stop(Input.CANCEL_REQUESTED)
    await turn.finished()

    assert [(end.outcome, end.result) for end in house.seen.tools_ended] == [("interrupted", None)]


def test_all_observers_see_a_turn_and_its_tool_calls():
    seen = [SeenTurns(), SeenTurns()]
    group = TurnObservers(seen)
    start = TurnStart(session_id="s", turn_id="t", model="m", purpose="chat")
    end = TurnEnd(
        start=start, state=State.COMPLETED, error_code=None, rounds=1, tool_calls=1, seconds=1.0
    )
    tool = ToolStart(name="add", tool_call_id="c1", session_id="s", is_agent=False)
    tool_end = ToolEnd(start=tool, outcome="ok", server=None, seconds=0.5)

    group.turn_started(start)
    group.tool_started(tool)
    group.tool_ended(tool_end)
    group.turn_ended(end)

    for each in seen:
        assert (each.started, each.ended) == ([start], [end])
        assert (each.tools_started, each.tools_ended) == ([tool], [tool_end])


@pytest.mark.parametrize("text", [[], [TextDelta("Half")]])
async def test_a_turn_that_fails_is_seen_with_its_code(house, text):
    house.model.say(*[[delta] for delta in text], OllamaError("no"))

    turn = await house.turns.start(await house.new_session(), HELLO)
    await turn.finished()

    (ended,) = house.seen.ended
    assert (ended.state, ended.error_code) == (State.FAILED, "OLLAMA_ERROR")


async def test_a_turn_that_is_cancelled_is_seen(house):
    house.model.say([TextDelta("Half")], ...)
    turn = await house.turns.start(await house.new_session(), HELLO)
    await house.model.asked.wait()

    turn.engine.stop(Input.CANCEL_REQUESTED)
    await turn.finished()

    assert [ended.state for ended in house.seen.ended] == [State.CANCELLED]
    assert len(house.seen.started) == 1


def test_the_log_has_a_line_for_each_start_and_end(caplog):
    caplog.set_level(logging.DEBUG, logger="chat.turn.observer")
    start = TurnStart(session_id="s", turn_id="t", model="m", purpose="agent")

    TurnLog().turn_started(start)
    TurnLog().turn_ended(
        TurnEnd(
            start=start, state=State.FAILED, error_code="X", rounds=2, tool_calls=1, seconds=0.5
        )
    )

    began, ended = caplog.records
    assert (began.levelname, began.getMessage()) == ("DEBUG", "turn started")
    assert (ended.levelname, ended.getMessage()) == ("INFO", "turn ended")
    assert (ended.state, ended.code, ended.rounds, ended.purpose) == ("failed", "X", 2, "agent")


def test_the_log_has_a_sentence_for_people(caplog):
    caplog.set_level(logging.INFO, logger="chat.turn.observer")
    start = TurnStart(session_id="s", turn_id="t", model="qwen3:14b", purpose="chat")
    end = TurnEnd(
        start=start,
        state=State.COMPLETED,
        error_code=None,
        rounds=1,
        tool_calls=0,
        seconds=2.345,
        usage=Usage(input_tokens=1812, output_tokens=120, cost_usd="0.0012"),
    )
    failed = msgspec.structs.replace(end, state=State.FAILED, error_code="X", usage=None)
    of_agent = msgspec.structs.replace(start, agent="coder")

    for each in (end, failed, msgspec.structs.replace(end, start=of_agent)):
        TurnLog().turn_ended(each)

    assert [record.sentence for record in caplog.records] == [
        "qwen3:14b: 2.3 s, 1,812 tokens in, 120 out, $0.0012",
        "qwen3:14b: failed (X), 2.3 s",
        "coder with qwen3:14b: 2.3 s, 1,812 tokens in, 120 out, $0.0012",
    ]
