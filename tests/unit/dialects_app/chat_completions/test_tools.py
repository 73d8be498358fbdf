"""Which tools a request offers, and which of them the model has to call."""

import pytest

from dialects_app.chat_completions.body import CompletionIn, FunctionIn, MessageIn, ToolIn
from dialects_app.chat_completions.tools import read_tools
from tests.unit.dialects_app.chat_completions.bodies import asked, function, refused
from tests.unit.dialects_app.counted_name import CountedName

TOOLS = [function("left"), function("right")]
ALLOWED = {"type": "allowed_tools"}


def named(name):
    return {"type": "function", "function": {"name": name}}


def offered(**fields):
    turn = asked(tools=TOOLS, **fields).chat.turn
    return [tool.name for tool in turn.client_tools], turn.tool_choice


def test_functions_are_tools_that_the_client_runs():
    (tool,) = asked(tools=[function(description="Tells the weather.")]).chat.turn.client_tools
    assert tool.name == "get_weather"
    assert tool.description == "Tells the weather."
    assert tool.parameters["properties"] == {"city": {"type": "string"}}


def test_a_function_without_parameters_takes_none():
    (tool,) = asked(tools=[function(parameters=None)]).chat.turn.client_tools
    assert tool.parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("choice", "names", "meant"),
    [
        (None, ["left", "right"], "auto"),
        ("auto", ["left", "right"], "auto"),
        ("none", [], "none"),
        ("required", ["left", "right"], "required"),
        (named("right"), ["left", "right"], ["right"]),
        (
            {**ALLOWED, "allowed_tools": {"mode": "auto", "tools": [named("left")]}},
            ["left"],
            "auto",
        ),
        (
            {**ALLOWED, "allowed_tools": {"mode": "required", "tools": [named("left")]}},
            ["left"],
            ["left"],
        ),
    ],
)
def test_a_choice_says_what_is_offered_and_what_must_be_called(choice, names, meant):
    assert offered(tool_choice=choice) == (names, meant)


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        ("any", "tool_choice"),
        ({"type": "custom", "custom": {"name": "x"}}, "tool_choice"),
        ({"type": "function"}, "tool_choice"),
        ({"function": {"name": "left"}}, "tool_choice"),
        (named("other"), "tool_choice.function.name"),
        (
            {**ALLOWED, "allowed_tools": {"mode": "auto", "tools": [named("other")]}},
            "tool_choice.allowed_tools.tools[0].function.name",
        ),
        (
            {**ALLOWED, "allowed_tools": {"mode": "auto", "tools": [{"type": "mcp"}]}},
            "tool_choice.allowed_tools.tools[0].type",
        ),
        (
            {**ALLOWED, "allowed_tools": {"mode": "never", "tools": []}},
            "tool_choice.allowed_tools.mode",
        ),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused_by_its_path(choice, field):
    assert refused(tools=TOOLS, tool_choice=choice) == field


@pytest.mark.parametrize("choice", ["required", named("left")])
def test_nothing_can_be_called_where_nothing_is_offered(choice):
    assert refused(tool_choice=choice) == "tool_choice"


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_choice_that_demands_nothing_needs_no_tools(choice):
    assert asked(tool_choice=choice, tools=[]).chat.turn.client_tools == ()


@pytest.mark.parametrize(
    ("tool", "field"),
    [
        ({"type": "web_search"}, "tools[1].type"),
        ({"type": "custom", "custom": {"name": "x"}}, "tools[1].type"),
        ({"type": "function"}, "tools[1].function"),
        (function("with space"), "tools[1].function.name"),
        (function(""), "tools[1].function.name"),
        (function("a" * 65), "tools[1].function.name"),
        (function("left"), "tools[1].function.name"),
        (function("left\n"), "tools[1].function.name"),
    ],
)
def test_a_tool_that_can_t_be_offered_is_refused_by_its_path(tool, field):
    assert refused(tools=[function("left"), tool]) == field


def test_tools_of_this_server_run_only_where_they_are_named():
    assert asked().chat.turn.selected_tools == ()
    turn = asked(where={"own_tools": "add, multiply ,,add"}).chat.turn
    assert turn.selected_tools == ("add", "multiply")


@pytest.mark.parametrize("model", ["profile:mine", "agent:coder"])
def test_a_profile_and_an_agent_bring_tools_of_their_own(model):
    assert asked(model=model).chat.turn.selected_tools is None
    assert asked(model=model, tool_choice="required").chat.turn.tool_choice == "required"
    turn = asked(model=model, where={"own_tools": "add"}).chat.turn
    assert turn.selected_tools == ("add",)


def test_a_tool_of_this_server_may_be_the_one_to_call():
    turn = asked(tool_choice=named("add"), where={"own_tools": "add,multiply"}).chat.turn
    assert turn.tool_choice == ["add"]
    allowed = {**ALLOWED, "allowed_tools": {"mode": "auto", "tools": [named("add")]}}
    turn = asked(tool_choice=allowed, tools=TOOLS, where={"own_tools": "add,multiply"}).chat.turn
    assert (turn.client_tools, turn.selected_tools) == ([], ["add"])


def test_a_thousand_tools_and_a_thousand_allowed_ones_are_compared_once_each(monkeypatch):
    names = [f"tool{number}" for number in range(1000)]
    functions = [FunctionIn(name=CountedName(name)) for name in names]
    choice = {**ALLOWED, "allowed_tools": {"mode": "auto", "tools": [named(it) for it in names]}}
    body = CompletionIn(
        model="some",
        messages=[MessageIn(role="user", content="Hello!")],
        tools=[ToolIn(type="function", function=each) for each in functions],
        tool_choice=choice,
    )
    monkeypatch.setattr(CountedName, "looks", 0)
    assert len(read_tools(body).client) == 1000
    assert CountedName.looks < 20_000
