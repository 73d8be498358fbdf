"""What a dead turn leaves, and who may touch it while it is not dead.

A copy of the data directory is what a killed process leaves: its files, without its locks.
"""

import asyncio
import itertools
import threading
from pathlib import Path
from unittest.mock import patch

import pytest

from chat.remote.recovery import TurnRecovery
from chat.remote.sealing_schedule import LONGEST_SECONDS, SealingSchedule
from chat.start.turn_request import TurnRequest
from chat.turn.actions import TurnActions
from chat.turn.state_machine import State
from models_app.language_model import CallDelta, Finished, TextDelta
from sessions_app.messages import (
    INTERRUPTED_RESULT,
    AssistantMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
)
from tests.unit.chat.listening import names, read_all
from tools_app.toolset import Tool, ToolListing, ToolResult

WAIT = ...
HELLO = TurnRequest(message="Hello!")


class Sleeper:
    """A tool that counts its calls and never returns when it is told to wait."""

    def __init__(self):
        self.calls = []
        self.waiting = asyncio.Event()

    async def listing(self, selection=None):
        spec = ToolSpec(name="t", description="T.", parameters={"type": "object"})
        return ToolListing(tools={"t": Tool(spec=spec)})

    async def call_tool(self, invocation):
        arguments = invocation.arguments
        self.calls.append(arguments)
        if arguments.get("wait"):
            self.waiting.set()
            await asyncio.Event().wait()
        return ToolResult(success=True, result="r")


def call(call_id, **arguments):
    return CallDelta(ToolCall(id=call_id, name="t", arguments=arguments))


async def run(house, session_id, request=HELLO):
    turn = await house.turns.start(session_id, request)
    return names(await read_all(turn.first_subscription))


async def test_a_call_in_flight_is_answered_and_never_run_again(make_house, after_a_kill):
    tools = Sleeper()
    house = make_house(tools)
    house.model.say([TextDelta("Let me."), call("c1"), call("c2", wait=True)], [Finished()])
    session_id = await house.new_session(tools=["t"])
    await house.turns.start(session_id, HELLO)
    await tools.waiting.wait()
    while len(await house.messages(session_id)) < 3:  # the first call's result is being saved
        await asyncio.sleep(0.001)
    again = Sleeper()
    found = await after_a_kill(house, again)
    assert await found.turns.active(session_id) is None
    _, asked, first, second = await found.messages(session_id)
    assert [c.id for c in asked.tool_calls] == [first.tool_call_id, second.tool_call_id]
    assert (first.content, second.content) == ("r", INTERRUPTED_RESULT)
    found.model.say_text("I see.")
    assert (await run(found, session_id, TurnRequest()))[-1] == "done"
    assert again.calls == []
    assert [m.content for m in found.model.requests[0].messages][-2:] == ["r", INTERRUPTED_RESULT]
    await house.turns.shutdown(grace_seconds=0)


async def test_a_partial_answer_is_sealed_by_whoever_cancels_attaches_or_chats(house, after_a_kill):
    house.model.say([TextDelta("Half ")], [TextDelta("an ")], WAIT)
    session_id = await house.new_session()
    await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    attached = await after_a_kill(house)
    frames = await read_all(await attached.turns.attach(session_id, None))
    assert names(frames) == ["turn_started", *["content_delta"] * 2, "error", "done"]
    answer = (await attached.messages(session_id))[-1]
    assert (answer.content, answer.interrupted) == ("Half an", True)
    chatting = await after_a_kill(house)
    chatting.model.say_text("Whole")
    await run(chatting, session_id, TurnRequest())
    assert [m.content for m in await chatting.messages(session_id)] == ["Hello!", "Whole"]


async def test_a_claim_that_makes_no_sense_loses_no_text(house, after_a_kill):
    house.model.say([TextDelta("Half ")], [TextDelta("an ")], WAIT)
    session_id = await house.new_session()
    await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    found = await after_a_kill(house)

    def tear():
        directory = Path(found.sessions.repository._directory) / ".claims"
        [claim] = [path for path in directory.iterdir() if path.name.startswith(session_id)]
        claim.unlink()
        claim.symlink_to("||")

    await asyncio.to_thread(tear)
    assert await found.turns.active(session_id) is None
    assert (await found.messages(session_id))[-1].content == "Half an"


async def test_nobody_ends_the_journal_of_a_turn_that_is_about_to(house, make_house):
    """A turn lets go of its session a moment before it says its last words."""
    last_words = asyncio.Event()
    report = TurnActions.report_complete

    async def report_later(engine):
        await last_words.wait()
        await report(engine)

    house.model.say_text("Hi")
    session_id = await house.new_session()
    with patch.object(TurnActions, "report_complete", report_later):
        turn = await house.turns.start(session_id, HELLO)
        elsewhere = make_house()
        while await asyncio.to_thread(house.sessions.repository.claim_of, session_id):
            await asyncio.sleep(0.001)
        await asyncio.to_thread(elsewhere.recovery.seal_all)
        follower = asyncio.create_task(read_all(await elsewhere.turns.attach(session_id, None)))
    elsewhere.model.say_text("The next turn may begin.")
    await run(elsewhere, session_id, TurnRequest(message="Next"))
    last_words.set()
    expected = ["turn_started", "content_delta", "message_complete", "done"]
    assert names(await read_all(turn.first_subscription)) == expected
    assert names(await follower) == expected
    entries = await asyncio.to_thread(house.journal.read, session_id, turn.turn_id)
    assert [entry.event for entry in entries.entries if entry.n] == expected


async def test_a_turn_that_can_not_begin_leaves_its_session_free(house):
    house.model.say_text("one")
    session_id = await house.new_session()
    await run(house, session_id)
    with (
        patch.object(house.confirmation_store, "withdraw_all", side_effect=OSError("no")),
        pytest.raises(OSError, match="no"),
    ):
        await house.turns.start(session_id, HELLO)
    house.model.say_text("two")
    assert (await run(house, session_id))[-1] == "done"


async def test_a_turn_before_which_no_other_can_be_ended_leaves_its_session_free(make_house):
    before = make_house()
    before.model.say_text("one")
    session_id = await before.new_session()
    await run(before, session_id)
    house = make_house()
    with (
        patch.object(TurnRecovery, "end_journals", side_effect=OSError("no")),
        pytest.raises(OSError, match="no"),
    ):
        await house.turns.start(session_id, HELLO)
    house.model.say_text("two")
    assert (await run(house, session_id))[-1] == "done"
    assert len(await house.messages(session_id)) == 4


async def test_a_cancel_while_calls_are_saved_runs_none_of_them(make_house):
    tools = Sleeper()
    house = make_house(tools)
    house.model.say([call("c1")], [Finished()])
    session_id = await house.new_session()
    repository = house.sessions.repository
    update, saving, go_on = repository.update, threading.Event(), threading.Event()

    def slow_update(session_id, change, **options):
        if not saving.is_set():
            saving.set()
            go_on.wait()
        return update(session_id, change, **options)

    with patch.object(repository, "update", slow_update):
        turn = await house.turns.start(session_id, HELLO)
        await asyncio.to_thread(saving.wait)
        cancelling = asyncio.create_task(house.turns.cancel(session_id))
        await asyncio.sleep(0)
        go_on.set()
        report = await cancelling
    assert (await turn.finished()).state is State.CANCELLED
    assert report.partial_content == ""
    assert tools.calls == []
    _, asked, result, cancelled = await house.messages(session_id)
    assert isinstance(asked, AssistantMessage)
    assert isinstance(result, ToolMessage)
    assert (asked.tool_calls[0].id, result.tool_call_id) == ("c1", "c1")
    assert (result.content, cancelled.content) == ("The call was cancelled.", "[cancelled]")


async def test_an_answer_that_can_not_be_saved_keeps_its_claim_for_a_second_try(house):
    house.model.say_text("Hi", " there")
    session_id = await house.new_session()
    repository = house.sessions.repository
    update, failures = repository.update, [OSError(5, "Input/output error")]

    def fails_once(session_id, change, **options):
        if failures:
            raise failures.pop()
        return update(session_id, change, **options)

    with patch.object(repository, "update", fails_once):
        assert (await run(house, session_id))[-2:] == ["error", "done"]
    answer = (await house.messages(session_id))[-1]
    assert (answer.content, answer.interrupted) == ("Hi there", True)
    house.model.say_text("Hi again")
    await run(house, session_id, TurnRequest())
    assert len(await house.messages(session_id)) == 2


class Clock:
    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


def test_what_is_new_is_tried_at_once_and_what_stays_less_and_less_often():
    clock = Clock()
    retries = SealingSchedule(clock)
    tried = []
    for second in range(200):
        clock.time = float(second)
        tried += [second] if retries.due({"a"}) else []
    pauses = [later - before for before, later in itertools.pairwise(tried)]
    assert pauses[:5] == [1, 1, 2, 4, 8]
    assert pauses[-1] == LONGEST_SECONDS
    assert retries.due({"a", "b"}) == ["b"]


def test_what_was_done_meanwhile_is_new_again():
    retries = SealingSchedule(Clock())
    for _ in range(5):
        retries.due({"a"})
    assert retries.due({"a"}) == []
    retries.due(set())
    assert retries.due({"a"}) == ["a"]


def test_a_failure_is_news_once_until_it_is_another_or_was_mended():
    retries = SealingSchedule(Clock())
    retries.due({"a", "b"})
    assert [retries.is_news("a", "corrupt") for _ in range(3)] == [True, False, False]
    assert retries.is_news("b", "corrupt")
    assert [retries.is_news("a", why) for why in ("too large", "too large")] == [True, False]
    retries.due({"b"})
    retries.due({"a", "b"})
    assert [retries.is_news(name, "corrupt") for name in ("a", "b")] == [True, False]
