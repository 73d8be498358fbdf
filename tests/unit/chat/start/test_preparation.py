"""Turns that would offer tools to models that can't call them."""

import asyncio

import msgspec
import pytest

from chat.start.turn_request import TurnRequest
from models_app.errors import ToolsNotSupported
from sessions_app.messages import ToolSpec
from sessions_app.session import AgentSettings, ToolSettings
from tests.unit.chat.conftest import NoTools
from tools_app.toolset import Tool, ToolListing


class Toolset(NoTools):
    """A function, and the tool of agents."""

    async def listing(self, selection=None):
        names = [*selection.names, *("agent" for _ in selection.agents)]
        return ToolListing(
            tools={
                name: Tool(
                    spec=ToolSpec(name=name, description=name, parameters={}),
                    delegated=name == "agent",
                )
                for name in names
            }
        )


@pytest.fixture
async def house(make_house):
    house = make_house(Toolset())
    yield house
    await house.turns.shutdown(grace_seconds=0)


def model_with(house, *capabilities):
    house.model.info = msgspec.structs.replace(house.model.info, capabilities=capabilities)


@pytest.mark.parametrize(
    ("settings", "selected", "field"),
    [
        ({}, ["add"], "selected_tools"),
        ({"tool_settings": ToolSettings(tools=("add",))}, None, "tool_settings"),
        ({"agent_settings": AgentSettings(enabled_agents=("coder",))}, None, "agent_settings"),
    ],
)
async def test_tools_for_a_model_without_are_refused_before_anything_is_saved(
    house, settings, selected, field
):
    model_with(house, "completion")
    session_id = await house.new_session()
    await asyncio.to_thread(house.sessions.update, session_id, **settings)
    with pytest.raises(ToolsNotSupported, match="can't call tools") as raised:
        await house.turns.start(session_id, TurnRequest(message="x", selected_tools=selected))
    assert raised.value.details["field"] == field
    assert await house.messages(session_id) == ()
    assert house.model.requests == []


@pytest.mark.parametrize("capabilities", [("completion", "tools"), ()])
async def test_a_model_that_can_or_of_which_nothing_is_known_is_asked(house, capabilities):
    model_with(house, *capabilities)
    house.model.say_text("Hello")
    session_id = await house.new_session()
    request = TurnRequest(message="x", selected_tools=["add"])
    turn = await house.turns.start(session_id, request)
    await turn.finished()
    assert [tool.name for tool in house.model.requests[0].tools] == ["add"]


async def test_without_its_tools_the_turn_goes_on_with_such_a_model(house):
    model_with(house, "completion")
    house.model.say_text("Hello")
    session_id = await house.new_session()
    settings = ToolSettings(tools=("add",))
    await asyncio.to_thread(house.sessions.update, session_id, tool_settings=settings)
    turn = await house.turns.start(session_id, TurnRequest(message="x", selected_tools=[]))
    assert (await turn.finished()).message.content == "Hello"


async def test_what_a_model_takes_of_images_decides_what_its_turns_plan(house):
    session = await asyncio.to_thread(house.sessions.get, await house.new_session())
    blind = msgspec.structs.replace(house.model.info, capabilities=("completion",))
    vendors = msgspec.structs.replace(blind, capabilities=(), provider="google")

    assert not house.preparer.rules(session, blind).attachments.takes("image/png")
    assert house.preparer.rules(session, vendors).attachments.takes("image/png")
    assert house.preparer.rules(session, vendors).attachments.vendor == "google"
    assert house.preparer.rules(session, None).attachments.takes("image/heic")
