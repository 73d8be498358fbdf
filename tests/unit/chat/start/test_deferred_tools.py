"""Turns with many tools: the model finds them, and they run as any other."""

import itertools

import msgspec
import pytest

from chat.start.offered_tools import with_own_tools
from chat.start.turn_request import TurnRequest
from chat.turn.job import ToolLimits
from models_app.language_model import Finished, ModelInfo
from sessions_app.messages import ToolMessage, ToolSpec
from sessions_app.session import make_session
from tests.unit.chat.turns import call, names, run
from tools_app.available_tools import AvailableTools
from tools_app.toolset import Tool, ToolListing, ToolResult

MANY = {f"tool_{number}": number for number in range(20)}


class ManyTools:
    """Twenty tools with long descriptions."""

    def __init__(self):
        self.ran = []
        self.tools = {
            name: Tool(
                spec=ToolSpec(
                    name=name,
                    description=f"Counts sheep by {number}.\n{'Long. ' * 100}",
                    parameters={"type": "object"},
                ),
                groups=("sheep",),
            )
            for name, number in MANY.items()
        }

    async def listing(self, selection=None):
        return ToolListing(tools=self.tools, groups={"sheep": list(MANY)})

    async def call_tool(self, invocation):
        self.ran.append(invocation.name)
        return ToolResult(success=True, result="ran")


@pytest.fixture
def tools():
    return ManyTools()


def house_of(make_house, tools, **limits):
    return make_house(tools, tool_limits=ToolLimits(rounds=9, **limits))


def offered(house):
    return [[spec.name for spec in request.tools] for request in house.model.requests]


async def test_schemas_come_with_what_is_found_and_stay_with_the_session(make_house, tools):
    house = house_of(make_house, tools, tokens=1000)
    house.model.say([call("c1", "find_tools", query="tool_7", limit=1)], [Finished()])
    house.model.say([call("c2", "find_tools", query="tool_3", limit=1)], [Finished()])
    house.model.say([call("c3", "tool_3")], [Finished()])
    house.model.say_text("Done.")
    session_id = await house.new_session(tools=list(MANY))

    events, _ = await run(house, session_id)
    house.model.say_text("Again.")
    await run(house, session_id)

    own = ["find_tools", "read_result"]
    loaded = [own, [*own, "tool_7"], [*own, "tool_7", "tool_3"], [*own, "tool_7", "tool_3"]]
    assert offered(house) == [*loaded, loaded[-1]]
    for before, after in itertools.pairwise(offered(house)):
        assert after[: len(before)] == before
    assert tools.ran == ["tool_3"]
    assert names(events).count("tool_result") == 3
    results = [m for m in await house.messages(session_id) if isinstance(m, ToolMessage)]
    assert results[0].content == "You can call these tools now:\n- tool_7: Counts sheep by 7."


async def test_the_instructions_list_all_tools_in_every_request(make_house, tools):
    house = house_of(make_house, tools, tokens=1000)
    house.model.say([call("c1", "find_tools", query="tool_7", limit=1)], [Finished()])
    house.model.say_text("Done.")
    await run(house, await house.new_session(tools=list(MANY)))

    first, second = (request.messages[0] for request in house.model.requests)
    assert first.role == "system"
    assert first.content == second.content
    lines = [f"{name}: Counts sheep by {number}." for name, number in MANY.items()]
    assert first.content.endswith("[sheep]\n" + "\n".join(lines))
    assert "Long." not in first.content


async def test_a_tool_that_is_listed_runs_without_being_loaded_and_is_loaded_then(
    make_house, tools
):
    house = house_of(make_house, tools, tokens=1000)
    house.model.say([call("c1", "tool_5")], [Finished()])
    house.model.say_text("Done.")
    await run(house, await house.new_session(tools=list(MANY)))
    assert tools.ran == ["tool_5"]
    assert offered(house)[1][-1] == "tool_5"


@pytest.mark.parametrize("found_first", [True, False])
async def test_a_tool_needs_its_approval_however_it_was_found(make_house, tools, found_first):
    house = house_of(make_house, tools, tokens=1000)
    if found_first:
        house.model.say([call("c0", "find_tools", query="tool_5")], [Finished()])
    house.model.say([call("c1", "tool_5")], [Finished()])
    session_id = await house.new_session(tools=list(MANY), policy="always_confirm")

    events, _ = await run(house, session_id, TurnRequest(message="Hi", approvals="suspend"))

    [asked] = [data for name, data in events if name == "tool_call_confirmation_required"]
    assert asked["tool_name"] == "tool_5"
    assert tools.ran == []


async def test_a_tool_that_the_session_does_not_have_is_not_found_and_does_not_run(
    make_house, tools
):
    house = house_of(make_house, tools, tokens=10)
    house.model.say([call("c1", "find_tools", query="tool_9")], [Finished()])
    house.model.say([call("c2", "tool_9")], [Finished()])
    house.model.say_text("Pity.")
    session_id = await house.new_session(tools=["tool_1", "tool_2"])

    events, _ = await run(house, session_id)

    first, second = [data for name, data in events if name == "tool_result"]
    assert "tool_9" not in first["result"]
    assert second["error_code"] == "TOOL_NOT_FOUND"
    assert tools.ran == []


@pytest.mark.parametrize("tokens", [0, 100_000])
async def test_all_schemas_are_sent_where_they_are_small_or_never_deferred(
    make_house, tools, tokens
):
    house = house_of(make_house, tools, tokens=tokens)
    house.model.say_text("Hello.")
    await run(house, await house.new_session(tools=list(MANY)))
    assert offered(house) == [list(MANY)]
    assert [message.role for message in house.model.requests[0].messages] == ["user"]


@pytest.mark.parametrize(
    ("limit", "tokens", "defers"),
    [
        (4_000, 1_900, False),
        (4_000, 2_100, True),
        (100_000, 9_000, False),
        (100_000, 11_000, True),
        (1_000_000, 19_000, False),
        (1_000_000, 21_000, True),
        (None, 19_000, False),
        (None, 21_000, True),
    ],
)
def test_unless_it_is_configured_a_tenth_of_the_limit_is_sent(limit, tokens, defers):
    spec = ToolSpec(name="t", description="x" * (tokens * 4), parameters={})
    info = ModelInfo(
        name="m", size_mb=1, capabilities=["tools"], context_length=limit, context_limit=limit
    )
    session = make_session("a1b2c3d4e5", "m", now="t")
    tools = with_own_tools(AvailableTools(tools={"t": Tool(spec=spec)}), session, info, None)
    assert (tools.loaded is not None) is defers


async def test_tools_that_a_request_chooses_by_name_are_sent(make_house, tools):
    house = house_of(make_house, tools, tokens=10)
    house.model.say([call("c1", "tool_1")], [Finished()])
    house.model.say_text("Done.")
    session_id = await house.new_session(tools=list(MANY))
    await run(house, session_id, TurnRequest(message="Go", tool_choice=("tool_1", "tool_2")))
    assert offered(house)[0] == ["tool_1", "tool_2"]


async def test_a_tool_of_the_same_name_keeps_all_schemas_in_the_request(make_house, tools):
    own = tools.tools["tool_1"]
    spec = msgspec.structs.replace(own.spec, name="find_tools")
    tools.tools["find_tools"] = msgspec.structs.replace(own, spec=spec)
    house = house_of(make_house, tools, tokens=10)
    house.model.say([call("c1", "find_tools", query="x")], [Finished()])
    house.model.say_text("Done.")
    await run(house, await house.new_session(tools=["find_tools", "tool_2"]))
    assert offered(house)[0] == ["find_tools", "tool_2"]
    assert tools.ran == ["find_tools"]
