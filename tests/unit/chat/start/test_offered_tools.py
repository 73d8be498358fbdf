"""What a client chooses of the tools that a turn could offer."""

import msgspec
import pytest

from chat.approvals.confirmation import Decision
from chat.start.offered_tools import offered_tools
from chat.start.turn_request import TurnRequest
from models_app.language_model import Finished
from sessions_app.errors import ValidationFailed
from sessions_app.messages import ToolSpec
from sessions_app.session import make_session
from tests.unit.chat.turns import Calculator, call, run
from tools_app.toolset import Tool, ToolListing

WEATHER = ToolSpec(name="weather", description="Tells the weather.", parameters={"type": "object"})
TIME = ToolSpec(name="time", description="Tells the time.", parameters={"type": "object"})
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
DONE = Finished(done_reason="stop")


@pytest.fixture
async def house(make_house):
    house = make_house(Calculator())
    yield house
    await house.turns.shutdown(grace_seconds=0)


def of_provider(house, provider):
    house.model.info = msgspec.structs.replace(house.model.info, provider=provider)


async def ask(house, *, tools=("add",), **how):
    """Run a turn with a tool of the server and two of the client; return its requests."""
    session_id = await house.new_session(tools=tools)
    request = TurnRequest(message="Hello!", **{"client_tools": [WEATHER, TIME], **how})
    _, outcome = await run(house, session_id, request)
    assert outcome.error is None
    return house.model.requests


def offered(request):
    return [tool.name for tool in request.tools]


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("auto", ["add", "weather", "time"]),
        ("none", []),
        ("required", ["add", "weather", "time"]),
        (["time"], ["time"]),
        (["add", "time"], ["add", "time"]),
    ],
)
async def test_the_client_chooses_what_is_offered(house, choice, names):
    house.model.say_text("Hi")
    [request] = await ask(house, tool_choice=choice)
    assert offered(request) == names


@pytest.mark.parametrize("choice", ["required", ["add", "time"]])
async def test_a_provider_that_can_is_made_to_force_the_first_answer_alone(house, choice):
    of_provider(house, "openai")
    house.model.say([call("c1", "add", a=1, b=2)], [DONE])
    house.model.say_text("3")
    first, second = await ask(house, tool_choice=choice)
    assert (first.requires_call, second.requires_call) == (True, False)
    assert first.messages[-1].content == "Hello!"
    assert offered(first) == offered(second)


async def test_a_provider_that_can_not_force_it_is_asked_in_the_first_prompt_alone(house):
    house.model.say([call("c1", "add", a=1, b=2)], [DONE])
    house.model.say_text("3")
    first, second = await ask(house, tool_choice=["add", "time"])
    assert (first.requires_call, second.requires_call) == (False, False)
    assert first.messages[-1].content == (
        "Hello!\n\n(Call one of these tools now, before you say anything: add, time.)"
    )
    assert [message.content for message in second.messages] == ["Hello!", "", "3"]


async def test_nothing_is_asked_for_where_the_model_may_choose(house):
    of_provider(house, "openai")
    house.model.say_text("Hi")
    [request] = await ask(house, tool_choice="auto")
    assert not request.requires_call
    assert request.messages[-1].content == "Hello!"


@pytest.mark.parametrize(
    ("how", "details"),
    [
        ({"tool_choice": ["hammer"]}, {"field": "tool_choice", "tool_name": "hammer"}),
        (
            {"tool_choice": "required", "client_tools": [], "tools": []},
            {"field": "tool_choice"},
        ),
        ({"tool_choice": []}, {"field": "tool_choice"}),
    ],
)
async def test_a_choice_that_can_not_be_had_is_refused(house, how, details):
    with pytest.raises(ValidationFailed) as raised:
        await ask(house, **how)
    assert raised.value.details == details
    assert house.model.requests == []


async def test_an_open_call_runs_although_nothing_is_offered_and_asks_first(house):
    session_id = await house.new_session(tools=["add"], policy="always_confirm")
    house.model.say([call("c1", "add", a=1, b=2)], [DONE])
    await run(house, session_id, TurnRequest(message="Hello!", approvals="suspend"))
    [asked] = await house.confirmations.pending(session_id)
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=asked.confirmation_id, approved=True)
    )
    house.model.say_text("3")
    await run(house, session_id, TurnRequest(tool_choice="none", approvals="suspend"))
    assert offered(house.model.requests[1]) == []
    assert house.model.requests[1].messages[-1].content == "3"


@pytest.mark.parametrize("how", [{"client_tools": [], "tools": ()}, {"tool_choice": "none"}])
async def test_a_schema_goes_to_the_provider_and_into_the_prompt(house, how):
    house.model.say_text("{}")
    [request] = await ask(house, answer_schema=SCHEMA, instructions="Be brief.", **how)
    assert request.answer_schema == SCHEMA
    prompt = request.messages[0].content
    assert prompt.startswith("Be brief.\n\nAnswer with JSON")
    assert '{"type":"object","properties":{"city":{"type":"string"}}}' in prompt


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_an_agent_that_answers_a_session_is_called_whatever_is_chosen(choice):
    spec = ToolSpec(name="agent", description="Runs.", parameters={})
    listing = ToolListing(tools={"agent": Tool(spec=spec, delegated=True)})
    session = make_session("0000000001", "agent:coder", now="1")
    tools = offered_tools(TurnRequest(tool_choice=choice), listing, session, None, ())
    assert list(tools.tools) == ["agent"]


@pytest.mark.parametrize("choice", ["auto", ["time"]])
def test_a_result_may_take_a_tenth_of_the_window(house, choice):
    info = msgspec.structs.replace(house.model.info, context_limit=4000)
    listing = ToolListing(tools={"time": Tool(spec=TIME)})
    session = make_session("0000000001", "m", now="1")
    request = TurnRequest(tool_choice=choice, selected_tools=["time"])
    tools = offered_tools(request, listing, session, info, ())
    assert tools.result_tokens == 400
    assert offered_tools(request, listing, session, None, ()).result_tokens is None
