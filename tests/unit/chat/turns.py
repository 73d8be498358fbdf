"""Runs turns to their end and reads their events, as (name, payload); a tool for them to call."""

import asyncio
import json

from chat.start.turn_request import TurnRequest
from models_app.language_model import CallDelta
from sessions_app.messages import ToolCall, ToolSpec
from tests.unit.chat.listening import read_all
from tools_app.toolset import Tool, ToolListing, ToolResult

WAIT = ...  # the model stays silent from here on
HELLO = TurnRequest(message="Hello!")


async def listen(turn):
    """Read a turn's stream to its end: [(event, payload), ...]."""
    events = await read_all(turn.first_subscription)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    return [(event.name, json.loads(event.data)) for event in events]


async def run(house, session_id, request=HELLO):
    turn = await house.turns.start(session_id, request)
    events = await listen(turn)
    return events, await turn.finished()


def names(events):
    return [name for name, _ in events]


class Calculator:
    """One tool, that adds or breaks."""

    def __init__(self):
        self.waiting = asyncio.Event()

    async def listing(self, selection=None):
        spec = ToolSpec(name="add", description="Adds.", parameters={"type": "object"})
        return ToolListing(tools={"add": Tool(spec=spec)})

    async def call_tool(self, invocation):
        arguments = invocation.arguments
        if arguments.get("wait"):
            self.waiting.set()
            await asyncio.Event().wait()
        return ToolResult(success=True, result=str(arguments["a"] + arguments["b"]))


def call(call_id, name="add", **arguments):
    return CallDelta(ToolCall(id=call_id, name=name, arguments=arguments))
