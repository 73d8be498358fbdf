"""Every turn's start and end are seen once, however it ends."""

import logging

import pytest

from chat.start.turn_request import TurnRequest
from chat.turn.observer import TurnEnd, TurnLog, TurnStart
from chat.turn.state_machine import Input, State
from models_app.errors import OllamaError
from models_app.language_model import Finished, TextDelta
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
    assert ended.start == started
    assert (ended.state, ended.error_code) == (State.COMPLETED, None)
    assert (ended.rounds, ended.tool_calls) == (2, 1)
    assert ended.seconds >= 0
    assert [request.purpose for request in house.model.requests] == ["chat", "chat"]


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
