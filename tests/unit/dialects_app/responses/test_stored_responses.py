"""Responses are found by their ids: while they run, after that, and when their events are gone."""

import asyncio
from contextlib import suppress

import msgspec
import pytest

from chat.approvals.confirmation import Decision
from chat.start.turn_request import TurnRequest
from dialects_app.responses.errors import ResponseNotFound
from dialects_app.responses.record import SEALED_REASONING, ResponseRecord
from dialects_app.responses.tool_forms import ToolForm
from dialects_app.shared.ids import read_item_id, response_id
from dialects_app.shared.sealed import seal
from models_app.errors import ModelError, ModelNotFound, NetworkError
from models_app.language_model import CallDelta, Finished, TextDelta, ThinkingDelta
from sessions_app.errors import SessionBusy
from sessions_app.messages import ToolCall, ToolMessage, ToolSpec
from tests.unit.chat.conftest import House, NoTools
from tests.unit.dialects_app.responses.conftest import HELLO, kept_in, run
from tests.unit.dialects_app.responses.parsed_messages import ids
from tests.unit.dialects_app.responses.streams import check_resource, shown

GO_ON = TurnRequest(approvals="suspend")
DONE = Finished(done_reason="stop", prompt_eval_count=10, eval_count=2)


def noted(*texts):
    return [
        CallDelta(ToolCall(id=f"c{number}", name="note", arguments={"text": text}))
        for number, text in enumerate(texts)
    ]


async def read(stream):
    """Return everything that a stream sends."""
    data = b""
    async with asyncio.timeout(20):
        while (events := await stream.listener.next()) is not None:
            data += stream.projector.feed(events)
    stream.listener.close()
    return shown(data)


def sweep(house, name):
    house.journal.discard(name[5:15], name[15:])


async def as_saved(house, kept, name):
    """Return a response from its session alone."""
    await asyncio.to_thread(sweep, house, name)
    return await kept.get(name)


# --- With and without events -------------------------------------------------------------------

SCRIPTS = {
    "an answer": [[[ThinkingDelta("Hm")], [TextDelta("Hel"), TextDelta("lo")], [DONE]]],
    "an answer that is too long": [[[TextDelta("Hel")], [Finished(done_reason="length")]]],
    "tools": [
        [[ThinkingDelta("Hm")], [TextDelta("Noting.")], noted("one", "nothing"), [DONE]],
        [noted("two"), [DONE]],
        [[TextDelta("All is noted.")], [DONE]],
    ],
    "an unknown tool": [
        [[CallDelta(ToolCall(id="c1", name="nope", arguments={}))], [DONE]],
        [[TextDelta("Sorry.")], [DONE]],
    ],
    "an error after some text": [[[TextDelta("Hel")], NetworkError("gone")]],
    "an error after tools": [[noted("one"), [DONE]], [NetworkError("gone")]],
}


async def test_a_response_that_asks_is_the_same_with_and_without_its_events(house, kept):
    house.model.say([TextDelta("May I?")], noted("one", "two"), [DONE])
    name = await run(house, tools=["note"], policy="always_confirm")
    found = await kept.get(name)
    check_resource(found)
    assert [item["type"] for item in found["output"]] == [
        "message",
        *["mcp_approval_request"] * 2,
    ]
    assert found["status"] == "completed"
    assert await as_saved(house, kept, name) == found
    for item in found["output"][1:]:
        asked = read_item_id(item["id"])
        await house.confirmations.decide(
            asked.session_id, Decision(confirmation_id=asked.name, approved=True)
        )
    house.model.say([TextDelta("All is noted.")], [DONE])
    after = await run(house, name[5:15], GO_ON)
    resumed = await kept.get(after)
    assert [item["type"] for item in resumed["output"]] == ["mcp_call", "mcp_call", "message"]
    saved = await as_saved(house, kept, after)
    assert without_arguments(saved) == without_arguments(resumed)


def without_arguments(resource):
    """Leave out what only the record of the response that resumes a call knows."""
    output = [
        {key: value for key, value in item.items() if key != "arguments"}
        for item in resource["output"]
    ]
    return {**resource, "output": output}


async def test_what_was_asked_is_repeated_with_and_without_events(house, kept, store):
    house.model.say_text("Hello")
    name = await run(house)
    record = ResponseRecord(echo={"model": "profile:x", "temperature": 0.5}, background=True)
    await asyncio.to_thread(store.keep, name[5:15], name[15:], record)
    found = await kept.get(name)
    assert (found["model"], found["temperature"], found["background"]) == ("profile:x", 0.5, True)
    assert await as_saved(house, kept, name) == found


async def test_tools_have_the_same_forms_with_and_without_events(house, kept, store):
    patch = ToolCall(id="c1", name="patch", arguments={"input": "*** Begin Patch"})
    read = ToolCall(id="c2", name="mcp__box__read", arguments={})
    house.model.say([ThinkingDelta("Hm")], [CallDelta(patch), CallDelta(read)], [DONE])
    specs = [ToolSpec(name=it.name, description="", parameters={}) for it in (patch, read)]
    request = msgspec.structs.replace(HELLO, client_tools=specs)
    name = await run(house, request=request)
    forms = {
        "patch": ToolForm(name="patch", is_custom=True),
        "mcp__box__read": ToolForm(name="read", namespace="mcp__box"),
    }
    record = ResponseRecord(forms=forms, include=(SEALED_REASONING,))
    await asyncio.to_thread(store.keep, name[5:15], name[15:], record)
    found = await kept.get(name)
    assert [item["type"] for item in found["output"]] == [
        *("reasoning", "custom_tool_call", "function_call"),
    ]
    assert found["output"][0]["encrypted_content"] == seal("Hm")
    assert await as_saved(house, kept, name) == found


async def test_the_output_of_a_custom_tool_is_input_of_the_next_response(house, kept, store):
    patch = ToolCall(id="c1", name="patch", arguments={"input": "x"})
    house.model.say([CallDelta(patch)], [DONE])
    spec = ToolSpec(name="patch", description="", parameters={})
    name = await run(house, request=msgspec.structs.replace(HELLO, client_tools=[spec]))
    record = ResponseRecord(forms={"patch": ToolForm(name="patch", is_custom=True)})
    await asyncio.to_thread(store.keep, name[5:15], name[15:], record)
    [made] = (await kept.get(name))["output"]
    house.model.say_text("Done.")
    result = ToolMessage(content="ok", tool_name="patch", tool_call_id="c1", **ids())
    after = await run(house, name[5:15], TurnRequest(messages=[result], client_tools=[spec]))
    *_, call, output = await kept.input_items(after)
    assert call == made
    assert (output["type"], output["output"]) == ("custom_tool_call_output", "ok")


# --- While it runs -----------------------------------------------------------------------------


@pytest.fixture
async def speaking(house):
    """The name of a response that has said a word, and goes on when it is told."""
    house.model.say([TextDelta("Hello ")], ..., [TextDelta("there")], [DONE])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    async with asyncio.timeout(20):
        await house.model.asked.wait()
        await turn.committed()
    yield response_id(session_id, turn.turn_id)
    house.model.go_on.set()
    async with asyncio.timeout(20):
        await turn.finished()


async def test_a_response_is_cancelled_once_and_for_all(house, kept, speaking, data_dir):
    elsewhere = kept_in(House(data_dir, NoTools()))
    async with asyncio.timeout(20):
        cancelled = await elsewhere.cancel(speaking)
    check_resource(cancelled)
    assert cancelled["status"] == "cancelled"
    assert await kept.cancel(speaking) == cancelled
    assert await as_saved(house, kept, speaking) == cancelled


async def test_a_response_that_has_ended_is_not_cancelled(house, kept):
    house.model.say_text("Hello")
    name = await run(house)
    assert (await kept.cancel(name))["status"] == "completed"


async def test_cancelling_a_response_leaves_the_next_one_alone(house, kept):
    house.model.say_text("Hello")
    first = await run(house)
    house.model.say([TextDelta("Hello ")], ..., [TextDelta("again")], [DONE])
    turn = await house.turns.start(first[5:15], HELLO)
    async with asyncio.timeout(20):
        await house.model.asked.wait()
    assert (await kept.cancel(first))["status"] == "completed"
    assert not turn.state.is_final
    house.model.go_on.set()
    await turn.finished()


async def test_a_running_response_is_not_deleted(kept, speaking):
    with pytest.raises(SessionBusy):
        await kept.delete(speaking)
    assert (await kept.get(speaking))["status"] == "in_progress"


# --- What is gone ------------------------------------------------------------------------------


async def test_a_response_that_left_nothing_but_its_record_failed(house, kept, store):
    house.model.say(ModelNotFound("gone"))
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    with suppress(ModelError):
        await turn.committed()
    await turn.finished()
    name = response_id(session_id, turn.turn_id)
    with pytest.raises(ResponseNotFound):
        await kept.get(name)
    await asyncio.to_thread(store.keep, session_id, turn.turn_id, ResponseRecord())
    found = await kept.get(name)
    assert (found["status"], found["output"]) == ("failed", [])


NAMELESS = ["", "resp_", "resp_0000000000", "chatcmpl-" + "0" * 20, "resp_" + "0" * 30, "../../x"]


@pytest.mark.parametrize("name", NAMELESS)
async def test_what_is_no_response_is_not_found(kept, name):
    for call in (kept.get, kept.stream, kept.cancel, kept.delete, kept.input_items):
        with pytest.raises(ResponseNotFound):
            await call(name)


async def test_a_turn_of_another_session_is_no_response_of_this_one(house, kept):
    house.model.say_text("Hello")
    name = await run(house)
    other = response_id(await house.new_session(), name[15:])
    for call in (kept.get, kept.stream, kept.cancel, kept.delete, kept.input_items):
        with pytest.raises(ResponseNotFound):
            await call(other)
