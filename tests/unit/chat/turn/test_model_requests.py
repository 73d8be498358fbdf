"""Tool calls that the model's server could not read are asked for once more."""

import json

import pytest

from chat.start.turn_request import TurnRequest
from models_app.errors import ToolCallUnreadable
from models_app.language_model import Finished, TextDelta, ThinkingDelta
from models_app.ollama.language_model import OllamaLanguageModel
from scripted_app.replies import BLOCK_END, BLOCK_START
from scripted_app.server import ScriptedModelServer
from tests.unit.chat.turns import Calculator, call, names, run

BROKEN = ToolCallUnreadable("XML syntax error on line 8", status=500)
NOTE = (
    "Your last tool call could not be read (XML syntax error on line 8). Write the call again, "
    "exactly in the required format."
)


@pytest.fixture
async def house(make_house):
    house = make_house(Calculator())
    yield house
    await house.turns.shutdown(grace_seconds=0)


@pytest.mark.parametrize(
    "before", [[], [[ThinkingDelta("I add.")]], [[call("c1")]], [[TextDelta(" ")]]]
)
async def test_a_call_that_can_not_be_read_is_asked_for_once_more(house, before):
    house.model.say(*before, BROKEN)
    house.model.say([call("c2", a=2, b=3)], [Finished("stop", 10, 5)])
    house.model.say_text("5")
    session_id = await house.new_session(tools=["add"])

    events, outcome = await run(house, session_id)

    first, again, _ = house.model.requests
    assert [*first.messages] == [*again.messages[:-1]]
    assert (again.messages[-1].role, again.messages[-1].content) == ("system", NOTE)
    assert again.tools == first.tools
    assert ("status", "retrying") in [(name, data.get("state")) for name, data in events]
    assert outcome.message.content == "5"
    assert names(events).count("tool_result") == 1
    assert NOTE not in str(await house.messages(session_id))


async def test_a_profiles_prompt_stays_where_it_is(house):
    house.model.info = type(house.model.info)(
        name="m", size_mb=1, capabilities=["completion", "tools"], system_prompt="Be brief."
    )
    house.model.say(BROKEN)
    house.model.say_text("Hello")
    await run(house, await house.new_session(tools=["add"]))
    assert [message.content for message in house.model.requests[1].messages] == [
        "Be brief.",
        "Hello!",
        NOTE,
    ]


async def test_a_call_that_stays_unreadable_ends_the_turn(house):
    house.model.say(BROKEN)
    house.model.say(BROKEN)
    _, outcome = await run(house, await house.new_session(tools=["add"]))
    assert (outcome.error.code, outcome.error.retryable) == ("TOOL_CALL_UNREADABLE", True)
    assert len(house.model.requests) == 2


async def test_after_text_the_turn_ends_and_the_text_is_kept(house):
    house.model.say([TextDelta("I add them.")], BROKEN)
    session_id = await house.new_session(tools=["add"])
    _, outcome = await run(house, session_id)
    assert outcome.error.code == "TOOL_CALL_UNREADABLE"
    assert len(house.model.requests) == 1
    assert (await house.messages(session_id))[-1].content == "I add them."


async def test_a_mark_of_reasoning_that_broke_off_does_not_hide_the_answer(house):
    house.model.say([TextDelta("<think>I add")], BROKEN)
    house.model.say_text("Hello")
    _, outcome = await run(house, await house.new_session(tools=["add"]))
    assert outcome.message.content == "Hello"
    assert outcome.message.thinking == "I add"


async def test_the_scripted_ollama_shows_calls_that_can_not_be_read_and_marks(make_house):
    server = ScriptedModelServer(words_per_second=0)
    await server.start()
    house = make_house(Calculator())
    ollama = OllamaLanguageModel(server.url)
    house.model.stream = ollama.stream
    try:
        session_id = await house.new_session("qwen3:14b", tools=["add"])
        calls = [{"tool_call": [{"name": "add", "args": {"a": 1, "b": 2}}]}]
        script = {"messages": calls, "error_line": "XML syntax error on line 8"}
        _, outcome = await run(house, session_id, scripted(script))
        assert outcome.error.code == "TOOL_CALL_UNREADABLE"
        assert len(server.requests) == 2

        pieces = ["<seed:think>Well", " then.</seed:think>", "Yes."]
        _, outcome = await run(
            house, session_id, scripted({"messages": [{"text_message": {"text": pieces}}]})
        )
        assert (outcome.message.thinking, outcome.message.content) == ("Well then.", "Yes.")
    finally:
        await house.turns.shutdown(grace_seconds=0)
        await ollama.aclose()
        await server.stop()


def scripted(script):
    return TurnRequest(message=f"{BLOCK_START}{json.dumps(script)}{BLOCK_END}")
