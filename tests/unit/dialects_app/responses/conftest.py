"""Responses of turns of a house, which are found by their ids."""

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from chat.start.turn_request import TurnRequest
from dialects_app.responses.store import ResponseStore
from dialects_app.responses.stored_responses import StoredResponses
from dialects_app.shared.ids import response_id
from models_app.errors import ModelError
from sessions_app.messages import ToolSpec
from tests.unit.chat.conftest import House
from tools_app.toolset import Tool, ToolListing, ToolResult

HELLO = TurnRequest(message="Hello!", approvals="suspend")


class Notes:
    """A toolset with one tool."""

    async def listing(self, selection=None):
        spec = ToolSpec(name="note", description="", parameters={})
        return ToolListing(tools={"note": Tool(spec=spec)})

    async def call_tool(self, invocation):
        text = invocation.arguments["text"]
        if text == "nothing":
            return ToolResult(success=False, error_message="There is nothing to note.")
        return ToolResult(success=True, result=f"noted {text}")


@pytest.fixture
def data_dir(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
async def house(data_dir):
    house = House(data_dir, Notes())
    yield house
    with suppress(ModelError):
        await house.turns.shutdown(grace_seconds=0)


@pytest.fixture
def store(house):
    return ResponseStore(house.space.records)


@pytest.fixture
def kept(house):
    return kept_in(house)


def kept_in(house, sessions=None):
    async def space_with(_):
        return house.space

    chat: Any = SimpleNamespace(space_with=space_with)
    return StoredResponses(chat=chat, sessions=sessions or house.sessions)


async def run(house, session_id=None, request=HELLO, **session):
    """Have a turn, and return the name of its response."""
    session_id = session_id or await house.new_session(**session)
    turn = await house.turns.start(session_id, request)
    async with asyncio.timeout(20):
        await turn.finished()
    return response_id(session_id, turn.turn_id)
