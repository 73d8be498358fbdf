"""Turns with tools: their rounds, their limits, and their calls when they are stopped."""

import asyncio
import json

import pytest

from chat.errors import (
    TurnLimitReached,
)
from chat.start.turn_request import TurnRequest
from chat.turn.state_machine import State
from models_app.language_model import (
    CallArgumentsDelta,
    Finished,
    TextDelta,
)
from sessions_app.messages import AssistantMessage, ToolMessage, UserMessage
from sessions_app.session import with_messages
from tests.unit.chat.turns import HELLO, Calculator, call, names, run


async def test_tool_calls_run_and_their_results_go_back_to_the_model(make_house):
    house = make_house(Calculator())
    house.model.say(
        [TextDelta("Let me see."), call("c1", a=1, b=2), call("c2", "nope")], [Finished()]
    )
    house.model.say_text("Three.")
    session_id = await house.new_session(tools=["add"])
    request = TurnRequest(message="1 + 2?", selected_tools=["add"])
    events, outcome = await run(house, session_id, request)
    assert names(events) == [
        "turn_started",
        "content_delta",
        "tool_call",
        "tool_call",
        "tool_result",
        "tool_result",
        "tool_continuation_start",
        "content_delta",
        "message_complete",
        "done",
    ]
    good, bad = (data for name, data in events if name == "tool_result")
    assert (good["result"], good["tool_call_id"], good["call_index"]) == ("3", "c1", 0)
    assert "error_code" not in good
    assert (bad["error_code"], bad["success"], bad["call_index"]) == ("TOOL_NOT_FOUND", False, 1)
    kinds = [type(message) for message in await house.messages(session_id)]
    assert kinds == [UserMessage, AssistantMessage, ToolMessage, ToolMessage, AssistantMessage]
    results = [m for m in await house.messages(session_id) if isinstance(m, ToolMessage)]
    assert [message.failed for message in results] == [False, True]
    assert [call.tool_call_id for call in outcome.tool_calls] == ["c1", "c2"]
    assert [spec.name for spec in house.model.requests[0].tools] == ["add"]
    assert [message.role for message in house.model.requests[1].messages] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]


async def test_the_ids_of_answers_are_told_before_their_text(make_house):
    house = make_house(Calculator())
    house.model.say([TextDelta("Let me see."), call("c1", a=1, b=2)], [Finished()])
    house.model.say_text("Three.")
    session_id = await house.new_session(tools=["add"])
    events, _ = await run(house, session_id)
    saved = [m for m in await house.messages(session_id) if isinstance(m, AssistantMessage)]
    begins = ("turn_started", "tool_continuation_start")
    told = [dict(events)[name]["message_id"] for name in begins]
    assert told == [message.message_id for message in saved]
    assert dict(events)["done"]["saved_at"] == saved[-1].timestamp


async def test_arguments_that_are_streamed_show_before_their_call_under_its_number(make_house):
    house = make_house(Calculator())
    house.model.say([call("c0", a=1, b=1)], [Finished()])
    pieces = [CallArgumentsDelta(0, "c1", "add", piece) for piece in ('{"a":1', ',"b":2}')]
    house.model.say(*[[piece] for piece in pieces], [call("c1", a=1, b=2)], [Finished()])
    house.model.say_text("Three.")
    events, _ = await run(house, await house.new_session(tools=["add"]))
    deltas = [data for name, data in events if name == "tool_call_delta"]
    assert [(d["call_index"], d["tool_call_id"]) for d in deltas] == [(1, "c1"), (1, "c1")]
    assert json.loads("".join(d["arguments"] for d in deltas)) == {"a": 1, "b": 2}
    assert [d.get("tool_name") for d in deltas] == ["add", None]  # told once
    assert [d["call_index"] for n, d in events if n == "tool_call"] == [0, 1]


async def test_a_model_that_asks_for_tools_for_ever_is_stopped(make_house):
    house = make_house(Calculator())
    for number in range(3):
        house.model.say([call(f"c{number}", a=1, b=1)], [Finished()])
    events, outcome = await run(house, await house.new_session(tools=["add"]))
    assert outcome.state is State.FAILED
    assert dict(events)["error"]["code"] == "TURN_LIMIT_REACHED"


async def test_a_model_that_asks_for_heaps_of_tools_at_once_is_stopped(house):
    house.model.say([call(f"c{number}") for number in range(129)], [Finished()])
    session_id = await house.new_session(tools=["add"])
    turn = await house.turns.start(session_id, HELLO)
    with pytest.raises(TurnLimitReached):
        await turn.committed()
    await turn.finished()
    assert len(await house.messages(session_id)) == 1


async def test_cancel_reaches_a_running_tool_and_its_call_gets_a_result(make_house):
    tools = Calculator()
    house = make_house(tools)
    house.model.say([call("c1", wait=True)], [Finished()])
    session_id = await house.new_session(tools=["add"])
    await house.turns.start(session_id, HELLO)
    await tools.waiting.wait()
    report = await house.turns.cancel(session_id)
    assert report.stopped["tools"] == ["add"]
    _, asked, result, cancelled = await house.messages(session_id)
    assert asked.tool_calls[0].id == result.tool_call_id == "c1"
    assert (result.content, cancelled.content) == ("The call was cancelled.", "[cancelled]")


async def test_open_calls_of_a_restart_run_before_the_model_is_asked(make_house):
    house = make_house(Calculator())
    house.model.say([call("c1", a=2, b=2)], [Finished()])
    house.model.say_text("Four.")
    session_id = await house.new_session(tools=["add"])
    await run(house, session_id)
    repository = house.sessions.repository

    def drop_result(session):
        return with_messages(session, session.messages[:2], now=session.metadata.updated_at)

    await asyncio.to_thread(repository.update, session_id, drop_result)
    house.model.say_text("Four again.")
    events, _ = await run(house, session_id, TurnRequest())
    assert names(events)[:3] == ["turn_started", "tool_call", "tool_result"]
    assert [message.role for message in await house.messages(session_id)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
