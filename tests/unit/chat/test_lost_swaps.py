"""Turns on a store without locks, where another process may be faster with each change."""

import asyncio

import pytest

from chat.start.turn_request import TurnRequest
from models_app.language_model import CallDelta, Finished, TextDelta
from sessions_app.messages import INTERRUPTED_RESULT, ToolCall, ToolSpec
from sessions_app.store.file_repository import FileSessionRepository
from tests.unit.chat.conftest import House
from tests.unit.chat.listening import names, read_all
from tools_app.toolset import Tool, ToolListing, ToolResult

HELLO = TurnRequest(message="Hello!")


def again(function):
    """Let a change be made once for nothing, as if its swap had been lost, and then once more."""

    def call(*arguments):
        function(*arguments)
        return function(*arguments)

    return function and call


class LosingRepository(FileSessionRepository):
    def update(self, session_id, change, **more):
        return super().update(session_id, again(change), **more)

    def update_idle(self, session_id, change, *, recover=None):
        return super().update_idle(session_id, again(change), recover=again(recover))

    def claim(self, session_id, turn_id, *, change, recover=None, **more):
        return super().claim(
            session_id, turn_id, recover=again(recover), change=again(change), **more
        )


class LosingHouse(House):
    repository_type = LosingRepository


class OneTool:
    def __init__(self):
        self.calls = 0
        self.waiting = asyncio.Event()

    async def listing(self, selection=None):
        spec = ToolSpec(name="t", description="T.", parameters={"type": "object"})
        return ToolListing(tools={"t": Tool(spec=spec)})

    async def call_tool(self, invocation):
        self.calls += 1
        if invocation.arguments.get("wait"):
            self.waiting.set()
            await asyncio.Event().wait()
        return ToolResult(success=True, result="r")


def call(call_id, **arguments):
    return CallDelta(ToolCall(id=call_id, name="t", arguments=arguments))


@pytest.fixture
async def house(data_dir):
    house = LosingHouse(data_dir, OneTool())
    yield house
    await house.turns.shutdown(grace_seconds=0)


async def contents(house, session_id):
    return [message.content for message in await house.messages(session_id)]


async def run(house, session_id, request=HELLO):
    turn = await house.turns.start(session_id, request)
    return names(await read_all(turn.first_subscription))


async def test_a_turn_with_a_tool_is_saved_once(house):
    house.model.say([TextDelta("Let me."), call("c1")], [Finished()])
    house.model.say_text("Done.")
    session_id = await house.new_session(tools=["t"])
    assert (await run(house, session_id))[-1] == "done"
    assert await contents(house, session_id) == ["Hello!", "Let me.", "r", "Done."]
    assert await asyncio.to_thread(house.sessions.repository.claim_of, session_id) is None


async def test_an_answer_that_is_made_again_becomes_one_variant(house):
    house.model.say_text("First")
    session_id = await house.new_session()
    await run(house, session_id)
    house.model.say_text("Second")
    await run(house, session_id, TurnRequest())
    question, answer = await house.messages(session_id)
    assert (question.content, answer.content, len(answer.variants)) == ("Hello!", "Second", 1)


async def test_an_edit_counts_what_it_removed(house):
    house.model.say_text("First")
    session_id = await house.new_session()
    await run(house, session_id)
    edit = await asyncio.to_thread(house.sessions.edit_message, session_id, 0, "Hi!")
    assert (edit.removed, edit.message_count) == (1, 1)


async def test_a_dead_turn_is_sealed_once(house, after_a_kill):
    tools = OneTool()
    house = LosingHouse(house.data_dir, tools)
    house.model.say([TextDelta("Let me."), call("c1", wait=True)], [Finished()])
    session_id = await house.new_session(tools=["t"])
    await house.turns.start(session_id, HELLO)
    await tools.waiting.wait()
    found = await after_a_kill(house, OneTool())
    frames = await read_all(await found.turns.attach(session_id, None))
    assert names(frames)[-2:] == ["error", "done"]
    assert await contents(found, session_id) == ["Hello!", "Let me.", INTERRUPTED_RESULT]
    await house.turns.shutdown(grace_seconds=0)
