"""Turns whose model calls tools that the client runs."""

import asyncio

import msgspec
import pytest

from chat.approvals.confirmation import Decision
from chat.errors import MissingToolResult
from chat.start.turn_request import TurnRequest
from chat.turn.state_machine import State
from models_app.errors import ServiceUnavailable, ToolsNotSupported
from models_app.language_model import CallArgumentsDelta, Finished, TextDelta
from sessions_app.calls import open_calls
from sessions_app.errors import ValidationFailed
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import INTERRUPTED_RESULT, ToolMessage, ToolSpec, UserMessage
from tests.unit.chat.turns import Calculator, call, listen, names, run

WEATHER = ToolSpec(name="weather", description="Tells the weather.", parameters={"type": "object"})
ADD = ToolSpec(name="add", description="Adds.", parameters={"type": "object"})
DONE = Finished(done_reason="stop", prompt_eval_count=10, eval_count=2)
HELLO = TurnRequest(message="Hello!", client_tools=[WEATHER])


def said(kind, content, **how):
    return kind(content=content, message_id=new_message_id(), timestamp=utc_now(), **how)


def result(call_id, content="rain"):
    return said(ToolMessage, content, tool_call_id=call_id)


def bringing(*messages, **how):
    return TurnRequest(messages=messages, client_tools=[WEATHER], **how)


def told(events):
    return [data for name, data in events if name == "client_tool_call"]


async def kept(house, session_id):
    return [(message.role, message.content) for message in await house.messages(session_id)]


@pytest.fixture
async def house(make_house):
    house = make_house(Calculator())
    yield house
    await house.turns.shutdown(grace_seconds=0)


@pytest.fixture
async def waiting(house):
    """A session whose last turn left two calls to its client."""
    session_id = await house.new_session()
    calls = [call("c1", "weather", city="Oslo"), call("c2", "weather", city="Rome")]
    house.model.say([TextDelta("Let me look."), *calls], [DONE])
    await run(house, session_id, HELLO)
    return session_id


async def test_a_call_of_a_clients_tool_ends_the_turn_and_is_told(house):
    session_id = await house.new_session()
    arguments = CallArgumentsDelta(0, "c1", "weather", '{"city":"Oslo"}')
    calls = [call("c1", "weather", city="Oslo"), call("c2", "weather", city="Rome")]
    house.model.say([TextDelta("Let me look.")], [arguments], [*calls, DONE])
    events, outcome = await run(house, session_id, HELLO)
    assert names(events) == [
        "turn_started",
        "content_delta",
        "tool_call_delta",
        "client_tool_call",
        "client_tool_call",
        "message_complete",
        "done",
    ]
    assert told(events) == [
        {
            "tool_name": "weather",
            "arguments": {"city": city},
            "call_index": index,
            "tool_call_id": call_id,
        }
        for index, (call_id, city) in enumerate([("c1", "Oslo"), ("c2", "Rome")])
    ]
    complete = events[-2][1]
    assert (complete["done_reason"], complete["tool_calls"]) == ("tool_calls", [])
    assert outcome.state is State.COMPLETED
    saved = (await house.messages(session_id))[-1]
    assert saved == outcome.message
    assert [(it.id, it.client_side) for it in saved.tool_calls] == [("c1", True), ("c2", True)]
    assert [tool.name for tool in house.model.requests[0].tools] == ["weather"]
    assert await house.turns.active(session_id) is None


async def test_the_next_request_brings_the_results_and_the_model_goes_on(house, waiting):
    house.model.say_text("Rain in Oslo.")
    await run(house, waiting, bringing(result("c1"), result("c2", "sun")))
    assert [(m.role, m.content) for m in house.model.requests[1].messages[1:]] == [
        ("assistant", "Let me look."),
        ("tool", "rain"),
        ("tool", "sun"),
    ]
    assert (await kept(house, waiting))[-1] == ("assistant", "Rain in Oslo.")
    assert open_calls(await house.messages(waiting)) == ()


@pytest.mark.parametrize(
    "messages", [[result("c2")], [said(UserMessage, "Well?")], [result("c2"), result("c2")]]
)
async def test_a_request_without_a_result_is_refused_and_saves_nothing(house, waiting, messages):
    before = await kept(house, waiting)
    with pytest.raises(MissingToolResult) as raised:
        await house.turns.start(waiting, bringing(*messages))
    assert raised.value.details["tool_call_id"] == "c1"
    with pytest.raises(MissingToolResult):
        await house.turns.start(waiting, bringing())
    assert await kept(house, waiting) == before


async def test_results_that_are_brought_again_after_a_failure_are_said_once(house, waiting):
    house.model.say(ServiceUnavailable("down"))
    turn = await house.turns.start(waiting, bringing(result("c1"), result("c2")))
    assert (await turn.finished()).state is State.FAILED
    house.model.say_text("Rain.")
    await run(house, waiting, bringing(result("c1"), result("c2")))
    assert [role for role, _ in await kept(house, waiting)] == [
        *("user", "assistant", "tool", "tool", "assistant")
    ]


async def test_a_message_of_the_native_api_gives_open_calls_up(house, waiting):
    house.model.say_text("Never mind.")
    await run(house, waiting, TurnRequest(message="Forget it."))
    assert [m.content for m in house.model.requests[1].messages[2:]] == [
        INTERRUPTED_RESULT,
        INTERRUPTED_RESULT,
        "Forget it.",
    ]
    assert [role for role, _ in await kept(house, waiting)] == [
        *("user", "assistant", "user", "assistant")
    ]


async def test_a_request_of_the_native_api_without_a_message_gives_open_calls_up(house, waiting):
    house.model.say_text("Never mind.")
    _, outcome = await run(house, waiting, TurnRequest())
    assert outcome.message.content == "Never mind."
    results = (await house.messages(waiting))[2:4]
    assert [(m.tool_call_id, m.content, m.failed) for m in results] == [
        ("c1", INTERRUPTED_RESULT, True),
        ("c2", INTERRUPTED_RESULT, True),
    ]
    assert [m.content for m in house.model.requests[1].messages[2:]] == [INTERRUPTED_RESULT] * 2


async def test_an_answer_after_a_clients_round_is_made_again_from_its_question(house, waiting):
    house.model.say_text("Rain.")
    await run(house, waiting, bringing(result("c1"), result("c2")))
    house.model.say_text("Look out of the window.")
    _, outcome = await run(house, waiting, TurnRequest())
    assert [m.content for m in house.model.requests[2].messages] == ["Hello!"]
    question, answer = await house.messages(waiting)
    assert (question.content, answer.message_id) == ("Hello!", outcome.message.message_id)
    assert [m.content for m in answer.variants[0]] == ["Let me look.", "rain", "rain", "Rain."]


async def test_no_summary_is_due_before_the_client_has_answered(make_house):
    answered = []
    house = make_house(on_answer=answered.append)

    async def is_due():
        session = await asyncio.to_thread(house.sessions.get, session_id)
        return session.metadata.summary_due is not None

    session_id = await house.new_session()
    house.model.say([call("c1", "weather")], [DONE])
    await run(house, session_id, HELLO)
    assert (answered, await is_due()) == ([], False)
    house.model.say_text("Rain.")
    await run(house, session_id, bringing(result("c1")))
    assert (answered, await is_due()) == ([session_id], True)


# --- With tools of the server


@pytest.fixture
async def mixed(house):
    """A session with a tool of the server, whose model calls it between two of the client."""
    session_id = await house.new_session(tools=["add"])
    calls = [call("c1", "weather"), call("c2", "add", a=1, b=2), call("c3", "weather")]
    house.model.say([TextDelta("Wait."), *calls], [DONE])
    return session_id


async def test_the_servers_calls_run_and_are_saved_before_the_clients_are_told(house, mixed):
    events, outcome = await run(house, mixed, HELLO)
    assert names(events)[2:] == [
        "tool_call",
        "tool_result",
        "client_tool_call",
        "client_tool_call",
        "message_complete",
        "done",
    ]
    indices = {data["tool_call_id"]: data["call_index"] for _, data in events[2:-2]}
    assert indices == {"c1": 0, "c2": 1, "c3": 2}
    assert [it["tool_call_id"] for it in events[-2][1]["tool_calls"]] == ["c2"]
    assert events[-2][1]["done_reason"] == outcome.message.done_reason == "tool_calls"
    assert await kept(house, mixed) == [("user", "Hello!"), ("assistant", "Wait."), ("tool", "3")]
    assert [it.id for it in open_calls(await house.messages(mixed))] == ["c1", "c3"]
    house.model.say_text("All there.")
    await run(house, mixed, bringing(result("c3", "sun"), result("c1", "rain")))
    sent = house.model.requests[1].messages[2:]
    assert [(m.tool_call_id, m.content) for m in sent] == [
        *(("c1", "rain"), ("c2", "3"), ("c3", "sun"))
    ]


async def test_a_client_may_not_answer_for_a_tool_of_the_server(house, make_house):
    session_id = await house.new_session(tools=["add"], policy="always_confirm")
    house.model.say([call("c1", "add", a=1, b=2)], [DONE])
    await run(house, session_id, TurnRequest(message="Hello!", approvals="suspend"))
    with pytest.raises(ValidationFailed, match="No tool call 'c1' waits"):
        await house.turns.start(session_id, bringing(result("c1", "4")))


async def test_a_turn_that_waits_for_an_approval_tells_the_clients_calls_too(house):
    session_id = await house.new_session(tools=["add"], policy="always_confirm")
    house.model.say([call("c1", "add", a=1, b=2), call("c2", "weather")], [DONE])
    asking = TurnRequest(message="Hello!", client_tools=[WEATHER], approvals="suspend")
    events, outcome = await run(house, session_id, asking)
    assert names(events)[1:] == [
        "tool_call_confirmation_required",
        "status",
        "client_tool_call",
        "done",
    ]
    assert outcome.state is State.SUSPENDED
    assert [(it["tool_call_id"], it["call_index"]) for it in told(events)] == [("c2", 1)]
    with pytest.raises(MissingToolResult):
        await house.turns.start(session_id, bringing(approvals="suspend"))
    [asked] = await house.confirmations.pending(session_id)
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=asked.confirmation_id, approved=True)
    )
    house.model.say_text("All there.")
    _, outcome = await run(house, session_id, bringing(result("c2"), approvals="suspend"))
    assert outcome.state is State.COMPLETED
    assert [(m.tool_call_id, m.content) for m in house.model.requests[1].messages[2:]] == [
        ("c1", "3"),
        ("c2", "rain"),
    ]


async def test_a_stopped_turn_closes_the_calls_that_its_client_was_not_told(house):
    session_id = await house.new_session(tools=["add"])
    calls = [call("c1", "weather"), call("c2", "add", a=1, b=2, wait=True)]
    house.model.say([*calls], [DONE])
    turn = await house.turns.start(session_id, HELLO)
    await house.preparer.toolset.waiting.wait()
    await house.turns.cancel(session_id)
    assert told(await listen(turn)) == []
    closed = [m for m in await house.messages(session_id) if isinstance(m, ToolMessage)]
    assert {m.tool_call_id: m.content for m in closed} == {
        "c1": "The call was cancelled.",
        "c2": "The call was cancelled.",
    }


async def test_a_turn_that_breaks_off_closes_the_calls_that_its_client_was_not_told(house):
    session_id = await house.new_session(tools=["add"])
    calls = [call("c1", "weather"), call("c2", "add", a=1, b=2, wait=True)]
    house.model.say([*calls], [DONE])
    turn = await house.turns.start(session_id, HELLO)
    await house.preparer.toolset.waiting.wait()
    await house.turns.shutdown(grace_seconds=0)
    assert names(await listen(turn))[-2:] == ["error", "done"]
    closed = [m for m in await house.messages(session_id) if isinstance(m, ToolMessage)]
    assert {m.tool_call_id: m.content for m in closed} == {
        "c1": INTERRUPTED_RESULT,
        "c2": INTERRUPTED_RESULT,
    }


async def test_a_turn_that_is_killed_closes_the_calls_that_its_client_was_not_told(
    house, after_a_kill
):
    session_id = await house.new_session(tools=["add"])
    calls = [call("c1", "weather"), call("c2", "add", a=1, b=2, wait=True)]
    house.model.say([*calls], [DONE])
    await house.turns.start(session_id, HELLO)
    await house.preparer.toolset.waiting.wait()
    later = await after_a_kill(house, Calculator())
    later.model.say_text("Hm.")
    await run(later, session_id, bringing(said(UserMessage, "And?")))
    closed = [m for m in await later.messages(session_id) if isinstance(m, ToolMessage)]
    assert {m.tool_call_id: m.content for m in closed} == {
        "c1": INTERRUPTED_RESULT,
        "c2": INTERRUPTED_RESULT,
    }


# --- What is refused


@pytest.mark.parametrize(
    ("tools", "field"),
    [
        ([WEATHER, WEATHER], "client_tools[1].name"),
        ([ToolSpec(name="add", description="", parameters={})], "client_tools[0].name"),
    ],
)
async def test_a_name_that_is_offered_twice_is_refused(house, tools, field):
    session_id = await house.new_session(tools=["add"])
    with pytest.raises(ValidationFailed) as raised:
        await house.turns.start(session_id, TurnRequest(message="Hello!", client_tools=tools))
    assert raised.value.details["field"] == field
    assert await kept(house, session_id) == []


async def test_client_tools_for_a_model_without_are_refused(house):
    house.model.info = msgspec.structs.replace(house.model.info, capabilities=["completion"])
    session_id = await house.new_session()
    with pytest.raises(ToolsNotSupported) as raised:
        await house.turns.start(session_id, HELLO)
    assert raised.value.details["field"] == "client_tools"
