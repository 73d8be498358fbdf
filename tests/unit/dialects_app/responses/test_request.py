"""What a request for a response asks of a turn, and what is refused."""

from typing import Any

import pytest

from dialects_app.responses.body import ResponseIn, ToolIn, what_was_sent
from dialects_app.responses.request import ParsedResponse, name_of_field, read_request
from dialects_app.shared.body import convert_body
from sessions_app.errors import ValidationFailed

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Tell the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": True,
}
OURS = {"type": "mcp", "server_label": "mochi"}
BODY = ResponseIn(
    tools=[
        ToolIn(type="function", name="x"),
        ToolIn(type="mcp", server_label="mochi"),
        ToolIn(type="function", name="y"),
    ]
)
SCHEMA = {"type": "json_schema", "name": "person", "schema": {"type": "object"}}


def asked(**body: Any) -> ParsedResponse:
    return read_request(convert_body({"model": "m", "input": "Hi", **body}, ResponseIn))


def refused_field(**body: Any) -> str:
    with pytest.raises(ValidationFailed) as refused:
        asked(**body)
    field: str = refused.value.details["field"]
    return field


def test_options_have_the_names_of_the_providers():
    turn = asked(temperature=0.5, top_p=0.9, max_output_tokens=100).turn
    assert turn.options == {
        "temperature": 0.5,
        "top_p": 0.9,
        "num_predict": 100,
        "max_tokens": 100,
    }
    assert asked().turn.options == {}


def test_a_turn_waits_for_approvals_and_goes_on_alone_only_in_the_background():
    turn = asked().turn
    assert (turn.approvals, turn.detached) == ("suspend", False)
    assert asked(background=True).turn.detached


@pytest.mark.parametrize(
    ("effort", "think"), [("none", False), ("minimal", "minimal"), ("high", "high"), ("max", "max")]
)
def test_effort_is_how_hard_a_model_thinks(effort, think):
    assert asked(reasoning={"effort": effort}).turn.think == think
    assert asked(reasoning={"summary": "auto"}).turn.think is None


def test_functions_are_the_clients_and_tools_of_mochi_the_servers():
    tools = asked(tools=[WEATHER, {**OURS, "allowed_tools": ["add", "agent:clerk"]}]).tools
    assert [spec.name for spec in tools.client] == ["get_weather"]
    assert tools.client[0].parameters == WEATHER["parameters"]
    assert tools.server is not None
    assert (tools.server.names, tools.server.agents) == (("add",), ("clerk",))
    everything = asked(tools=[OURS]).tools.server
    assert everything is not None
    assert everything.names is None
    assert asked().tools.server is None


@pytest.mark.parametrize(
    ("require_approval", "policy", "policies"),
    [
        (None, None, {}),
        ("always", "always_confirm", {}),
        ("never", "never_confirm", {}),
        (
            {"never": {"tool_names": ["add"]}, "always": {"tool_names": ["wipe"]}},
            None,
            {"add": "never_confirm", "wipe": "always_confirm"},
        ),
    ],
)
def test_what_needs_an_approval_is_a_policy(require_approval, policy, policies):
    server = asked(tools=[{**OURS, "require_approval": require_approval}]).tools.server
    assert server is not None
    assert (server.policy, server.policies) == (policy, policies)


@pytest.mark.parametrize(
    ("choice", "turned"),
    [
        (None, "auto"),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "get_weather"}, ("get_weather",)),
        ({"type": "mcp", "server_label": "mochi", "name": "add"}, ("add",)),
    ],
)
def test_a_choice_of_tools_is_the_turns(choice, turned):
    assert asked(tools=[WEATHER, OURS], tool_choice=choice).turn.tool_choice == turned


def test_allowed_tools_leave_the_others_out():
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [OURS]}
    tools = asked(tools=[WEATHER, OURS], tool_choice=allowed).tools
    assert (tools.client, tools.choice) == ([], "auto")
    assert tools.server is not None
    named = {"type": "function", "name": "get_weather"}
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [named]}
    tools = asked(tools=[WEATHER, OURS], tool_choice=allowed).tools
    assert [spec.name for spec in tools.client] == ["get_weather"]
    assert (tools.server, tools.choice) == (None, "required")


def test_the_form_of_an_answer_is_its_schema():
    assert asked(text={"format": SCHEMA}).turn.answer_schema == {"type": "object"}
    assert asked(text={"format": {"type": "json_object"}}).turn.answer_schema == {"type": "object"}
    assert asked(text={"format": {"type": "text"}}).turn.answer_schema is None


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
def test_a_form_holds_too_where_a_call_comes_first(choice):
    tools = [{**WEATHER, "strict": False}, OURS]
    parsed = asked(text={"format": SCHEMA}, tool_choice=choice, tools=tools)
    assert parsed.turn.answer_schema == {"type": "object"}
    assert parsed.warnings == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"previous_response_id": "resp_1", "conversation": "conv_1"}, "previous_response_id"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"include": ["mochi.agent_events", "message.output_text.logprobs"]}, "include[1]"),
        ({"tools": [{"type": "mcp", "server_label": "other"}]}, "tools[0].server_label"),
        ({"tools": [OURS, OURS]}, "tools[1]"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].name"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{**OURS, "allowed_tools": [1]}]}, "tools[0].allowed_tools[0]"),
        ({"tools": [{**OURS, "require_approval": "often"}]}, "tools[0].require_approval"),
        ({"tools": [{**OURS, "require_approval": 3}]}, "tools[0].require_approval"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": "often"}, "tool_choice"),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "x"}},
            "tool_choice.name",
        ),
        ({"tools": [WEATHER], "tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        ({"tools": [WEATHER], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.mode"),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "mode": "auto"}},
            "tool_choice.tools",
        ),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"temperature": 3}, "temperature"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_path(body, field):
    assert refused_field(**body) == field


def test_what_is_not_obeyed_is_said():
    warnings = asked(
        tools=[WEATHER],
        parallel_tool_calls=False,
        truncation="disabled",
        max_tool_calls=3,
    ).warnings
    assert [warning.partition(":")[0] for warning in warnings] == [
        "parallel_tool_calls",
        "tools",
        "truncation",
        "max_tool_calls",
    ]
    plain = asked(service_tier="auto", truncation="auto", text={"verbosity": "low"})
    assert plain.warnings == []


def test_verbosity_and_tier_are_passed_on():
    turn = asked(service_tier="flex", text={"verbosity": "low"}).turn
    assert turn.options == {"service_tier": "flex", "verbosity": "low"}
    assert asked(service_tier="scale").turn.options == {}
    assert "service_tier" not in what_was_sent(ResponseIn(model="m", input="Hi"))["responses"]


def test_parameters_are_repeated():
    echo = asked(
        instructions="Be brief.",
        tools=[WEATHER, OURS],
        temperature=0.5,
        metadata={"a": "b"},
        store=False,
        text={"verbosity": "low"},
        reasoning={"effort": "low"},
        user="me",
    ).echo
    assert echo["tools"][0] == WEATHER
    assert echo["tools"][1]["server_label"] == "mochi"
    assert echo["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert echo["reasoning"] == {"effort": "low", "summary": None}
    kept = {name: echo[name] for name in ("instructions", "temperature", "metadata", "store")}
    assert kept == {
        "instructions": "Be brief.",
        "temperature": 0.5,
        "metadata": {"a": "b"},
        "store": False,
    }
    assert "top_p" not in echo


def test_errors_of_a_turn_name_the_parameters_of_this_protocol():
    for field, parameter in {
        "client_tools[1].name": "tools[2].name",
        "messages[0].content": "input",
        "think": "reasoning.effort",
        "selected_tools": "tools",
        "model": "model",
        "input[2].call_id": "input[2].call_id",
    }.items():
        assert name_of_field(field, BODY) == parameter
