"""Answers that are made again: the old one stays until the new one is whole, then as a variant."""

import asyncio

import pytest

from chat.approvals.confirmation import Decision
from chat.start.turn_request import TurnRequest
from chat.turn.state_machine import State
from models_app.errors import OllamaError, OllamaUnreachable
from models_app.language_model import CallDelta, Finished, TextDelta, ThinkingDelta
from sessions_app.errors import StorageFull
from sessions_app.messages import ToolCall, ToolSpec
from tests.unit.chat.listening import read_all
from tools_app.toolset import Tool, ToolListing, ToolResult

WAIT = ...
AGAIN = TurnRequest()
BROKEN = OllamaError("unexpected EOF", retryable=True)


class Adder:
    """One tool that answers 3."""

    async def listing(self, selection=None):
        spec = ToolSpec(name="add", description="Adds", parameters={"type": "object"})
        return ToolListing(tools={"add": Tool(spec=spec)})

    async def call_tool(self, invocation):
        return ToolResult(success=True, result="3")


async def run(house, session_id, request=AGAIN):
    turn = await house.turns.start(session_id, request)
    await read_all(turn.first_subscription)
    return await turn.finished()


async def answered(house, *texts, **how):
    """Return a session with a question and its answer, made again for each further text."""
    session_id = await house.new_session(**how)
    for number, text in enumerate(texts):
        house.model.say_text(text)
        await run(house, session_id, AGAIN if number else TurnRequest(message="Hello!"))
    return session_id


async def said(house, session_id):
    """Return the texts of the session's messages, and those of its last answer's variants."""
    messages = await house.messages(session_id)
    holder = next(message for message in messages[1:] if message.role == "assistant")
    variants = [[message.content for message in variant] for variant in holder.variants]
    return [message.content for message in messages], variants


async def test_the_old_answer_stays_until_the_new_one_is_saved(house):
    session_id = await answered(house, "Old")
    house.model.say([TextDelta("N")], WAIT, [TextDelta("ew")], [Finished()])
    turn = await house.turns.start(session_id, AGAIN)
    await house.model.asked.wait()
    assert await said(house, session_id) == (["Hello!", "Old"], [])
    house.model.go_on.set()
    await turn.finished()
    assert await said(house, session_id) == (["Hello!", "New"], [["Old"]])


async def test_answers_stay_newest_first_and_no_model_is_sent_them(house):
    session_id = await answered(house, "One", "Two", "Three")
    assert await said(house, session_id) == (["Hello!", "Three"], [["Two"], ["One"]])
    house.model.say_text("Bye")
    await run(house, session_id, TurnRequest(message="And now?"))
    requests = [[m.content for m in request.messages] for request in house.model.requests]
    assert requests == [["Hello!"]] * 3 + [["Hello!", "Three", "And now?"]]


async def test_a_model_out_of_reach_takes_no_answer_away(house):
    session_id = await answered(house, "Old")
    house.model.say(OllamaUnreachable("connection refused"))
    turn = await house.turns.start(session_id, AGAIN)
    with pytest.raises(OllamaUnreachable):
        await turn.committed()
    assert (await turn.finished()).state is State.FAILED
    assert await said(house, session_id) == (["Hello!", "Old"], [])


async def test_an_answer_that_breaks_off_is_a_variant_of_the_whole_one(house):
    session_id = await answered(house, "Old")
    house.model.say([TextDelta("Half a")], BROKEN)
    assert (await run(house, session_id)).state is State.FAILED
    assert await said(house, session_id) == (["Hello!", "Old"], [["Half a"]])
    _, old = await house.messages(session_id)
    assert old.variants[0][0].interrupted
    house.model.say_text("New")
    await run(house, session_id)
    assert await said(house, session_id) == (["Hello!", "New"], [["Half a"], ["Old"]])


async def test_an_answer_that_is_stopped_is_a_variant_too_and_told_by_its_id(house):
    session_id = await answered(house, "Old")
    house.model.say([TextDelta("Half a")], WAIT)
    turn = await house.turns.start(session_id, AGAIN)
    await house.model.asked.wait()
    report = await house.turns.cancel(session_id)
    assert report.partial_content == "Half a"
    outcome = await turn.finished()
    assert await said(house, session_id) == (["Hello!", "Old"], [["Half a\n\n[cancelled]"]])
    _, old = await house.messages(session_id)
    assert old.variants[0][0].message_id == outcome.message.message_id


@pytest.mark.parametrize("script", [[WAIT], [[ThinkingDelta("Hm")], BROKEN]])
async def test_an_attempt_without_text_leaves_nothing(house, script):
    session_id = await answered(house, "Old")
    before = (await house.messages(session_id))[1]
    house.model.say(*script)
    turn = await house.turns.start(session_id, AGAIN)
    if script == [WAIT]:
        await house.model.asked.wait()
        await house.turns.cancel(session_id)
    await turn.finished()
    assert (await house.messages(session_id))[1] == before


async def test_a_broken_answer_gives_way_to_any_other_and_stays_as_a_variant(house):
    session_id = await house.new_session()
    for text in ("Half a", "Half"):
        house.model.say([TextDelta(text)], BROKEN)
        request = TurnRequest(message="Hello!") if text == "Half a" else AGAIN
        await run(house, session_id, request)
    assert await said(house, session_id) == (["Hello!", "Half"], [["Half a"]])
    house.model.say_text("Whole")
    await run(house, session_id)
    assert await said(house, session_id) == (["Hello!", "Whole"], [["Half"], ["Half a"]])


async def test_an_answer_with_tools_takes_the_place_when_it_asks_for_them(make_house):
    house = make_house(Adder())
    session_id = await answered(house, "Old", tools=["add"])
    call = ToolCall(id="c1", name="add", arguments={})
    house.model.say([TextDelta("Adding"), CallDelta(call)], [Finished()])
    house.model.say([TextDelta("It")], WAIT, [TextDelta(" is 3")], [Finished()])
    turn = await house.turns.start(session_id, AGAIN)
    await house.model.asked.wait()
    assert await said(house, session_id) == (["Hello!", "Adding", "3"], [["Old"]])
    house.model.go_on.set()
    await turn.finished()
    assert await said(house, session_id) == (["Hello!", "Adding", "3", "It is 3"], [["Old"]])
    assert [m.content for m in house.model.requests[-1].messages] == ["Hello!", "Adding", "3"]
    house.model.say_text("New")
    await run(house, session_id)
    assert await said(house, session_id) == (
        ["Hello!", "New"],
        [["Adding", "3", "It is 3"], ["Old"]],
    )


async def test_an_answer_with_tools_that_breaks_off_gives_the_whole_one_back(make_house):
    house = make_house(Adder())
    session_id = await answered(house, "Old", tools=["add"])
    call = ToolCall(id="c1", name="add", arguments={})
    house.model.say([CallDelta(call)], [Finished()])
    house.model.say([TextDelta("It")], BROKEN)
    await run(house, session_id)
    assert await said(house, session_id) == (["Hello!", "Old"], [["", "3", "It"]])


async def test_an_answer_with_tools_that_can_go_on_stays(make_house):
    house = make_house(Adder())
    session_id = await answered(house, "Old", tools=["add"])
    call = ToolCall(id="c1", name="add", arguments={})
    house.model.say([CallDelta(call)], [Finished()])
    house.model.say(BROKEN)
    await run(house, session_id)
    assert await said(house, session_id) == (["Hello!", "", "3"], [["Old"]])
    house.model.say_text("It is 3")
    await run(house, session_id)
    assert await said(house, session_id) == (["Hello!", "", "3", "It is 3"], [["Old"]])
    assert len(house.model.requests) == 4


async def test_an_answer_that_can_not_be_saved_leaves_the_old_one(house, monkeypatch):
    session_id = await answered(house, "Old")
    house.model.say([TextDelta("N")], WAIT, [Finished()])
    turn = await house.turns.start(session_id, AGAIN)
    await house.model.asked.wait()

    def full(*args, **how):
        raise StorageFull("No space is left.")

    monkeypatch.setattr("sessions_app.store.session_files.write_atomically", full)
    house.model.go_on.set()
    assert (await turn.finished()).state is State.UNSAVED
    monkeypatch.undo()
    await asyncio.to_thread(house.recovery.seal, session_id)
    assert await said(house, session_id) == (["Hello!", "Old"], [["N"]])


async def test_variants_count_nowhere(house):
    session_id = await answered(house, "Old " * 500, "New")
    session = await asyncio.to_thread(house.sessions.get, session_id)
    assert (session.metadata.message_count, session.metadata.preview) == (2, "Hello!")
    house.model.say_text("Bye")
    outcome = await run(house, session_id, TurnRequest(message="And now?"))
    assert outcome.context_window["usage_tokens"] < 100


async def test_an_answer_that_waits_for_an_approval_stands_and_goes_on(make_house):
    house = make_house(Adder())
    session_id = await answered(house, "Old", tools=["add"], policy="always_confirm")
    call = ToolCall(id="c1", name="add", arguments={})
    house.model.say([CallDelta(call)], [Finished()])
    outcome = await run(house, session_id, TurnRequest(approvals="suspend"))
    assert outcome.state is State.SUSPENDED
    assert await said(house, session_id) == (["Hello!", ""], [["Old"]])
    [asked] = outcome.confirmations
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=asked.confirmation_id, approved=True)
    )
    house.model.say_text("It is 3")
    await run(house, session_id)
    assert await said(house, session_id) == (["Hello!", "", "3", "It is 3"], [["Old"]])
