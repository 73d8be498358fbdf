"""Requests for messages, as requests for turns."""

import pytest

from dialects_app.messages.request import name_of_field
from models_app.language_model import TOKEN_LIMITS
from sessions_app.errors import ValidationFailed
from tests.unit.dialects_app.messages.bodies import (
    HELLO,
    READ,
    asked,
    assistant,
    call,
    refused,
    result,
    user,
)

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}


def test_what_clients_always_send_is_taken():
    parsed = asked(
        metadata={"user_id": "x"},
        context_management={"edits": []},
        service_tier="auto",
        speed="fast",
        inference_geo="eu",
        betas=["one"],
        tool_choice={"type": "auto"},
    )
    assert (parsed.warnings, parsed.chat.ephemeral) == ([], True)


def test_options_pass_by_the_names_of_models():
    options = asked(temperature=1.0, top_p=0.5, top_k=3, stop_sequences=["END"]).chat.turn.options
    limits = dict.fromkeys(TOKEN_LIMITS, 100)
    assert options == {"temperature": 1.0, "top_p": 0.5, "top_k": 3, "stop": ["END"], **limits}
    assert asked(max_tokens=10_000_000).chat.turn.options["num_predict"] == 10_000_000


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": 1.5}, "temperature"),
        ({"mcp_servers": [{"url": "https://x"}]}, "mcp_servers"),
        ({"tools": [{**READ, "name": "no spaces"}]}, "tools[0].name"),
        ({"tools": [READ, READ]}, "tools[1].name"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [READ], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [READ], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
        ({"system": [{"type": "text"}]}, "system[0].text"),
        ({"messages": []}, "messages"),
    ],
)
def test_what_can_not_be_done_is_refused_with_its_field(fields, field):
    assert refused(**fields)[0] == field


@pytest.mark.parametrize(
    ("fields", "think"),
    [
        ({}, False),
        ({"thinking": {"type": "disabled"}}, False),
        ({"output_config": {"effort": "high"}}, False),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, True),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "low"),
    ],
)
def test_a_model_reasons_if_it_is_asked_to(fields, think):
    assert asked(**fields).chat.turn.think == think


def test_a_model_that_can_not_reason_is_not_asked_to():
    thinking = {"type": "adaptive"}
    assert asked(thinking=thinking, where={"can_think": False}).chat.turn.think is None


@pytest.mark.parametrize("where", ["output_config", "output_format"])
def test_a_schema_is_that_of_the_answer(where):
    form = {"type": "json_schema", "schema": {"type": "object"}}
    fields = {where: {"format": form} if where == "output_config" else form}
    assert asked(**fields).chat.turn.answer_schema == {"type": "object"}


def test_the_clients_tools_are_offered_and_anthropics_are_left_out():
    parsed = asked(tools=[READ, SEARCH, {**READ, "name": "Edit", "type": "custom"}])
    assert [tool.name for tool in parsed.chat.turn.client_tools] == ["Read", "Edit"]
    assert parsed.warnings == ["tools[1]: web_search is not available here"]


def test_a_request_with_nothing_but_a_tool_of_anthropics_is_refused():
    field, sentence = refused(tools=[SEARCH])
    assert (field, sentence) == ("tools[0]", "web_search is not available on this server.")


def test_a_deferred_tool_is_offered_once_a_result_names_it():
    deferred = {**READ, "name": "WebSearch", "defer_loading": True}
    reference = {"type": "tool_reference", "tool_name": "WebSearch"}
    assert asked(tools=[READ, deferred]).chat.turn.client_tools[-1].name == "Read"

    parsed = asked(
        HELLO,
        assistant(call("a", "ToolSearch")),
        user(result("a", [reference])),
        tools=[READ, deferred],
    )
    assert [tool.name for tool in parsed.chat.turn.client_tools] == ["Read", "WebSearch"]
    assert parsed.chat.turn.messages[-1].content == "Tool WebSearch can be called now."


@pytest.mark.parametrize(
    ("choice", "turns"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "Read"}, ["Read"]),
    ],
)
def test_a_choice_of_tools_passes(choice, turns):
    assert asked(tools=[READ], tool_choice=choice).chat.turn.tool_choice == turns


def test_parallel_calls_can_not_be_forbidden():
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    assert asked(tools=[READ], tool_choice=choice).warnings == [
        "disable_parallel_tool_use: the model may call several tools at once"
    ]


def test_this_servers_tools_run_if_the_header_names_them():
    turn = asked(where={"own_tools": "add, wipe"}).chat.turn
    assert (turn.selected_tools, turn.approvals) == (("add", "wipe"), "deny")
    assert asked().chat.turn.selected_tools == ()
    assert asked(model="agent:clerk").chat.turn.selected_tools is None


def test_a_thread_is_refused_so_that_the_packages_send_the_whole_conversation():
    with pytest.raises(ValidationFailed) as refusal:
        asked(thread={"type": "create"})
    assert refusal.value.details == {
        "field": "thread",
        "error_code": "thread_unsupported_request",
        "unsupported": ["thread"],
    }


def test_fields_of_turns_have_the_names_of_the_request():
    parsed = asked(system="Be brief.", tools=[READ])
    names = ("messages[1].attachments", "client_tools[0].name", "think", "other")
    assert [name_of_field(name, parsed.paths) for name in names] == [
        "messages[0].attachments",
        "tools[0].name",
        "thinking",
        "other",
    ]
