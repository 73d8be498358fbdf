"""Tools of the client, and of the scripted, in chat completions."""

from typing import Any

import openai
import pytest

from mochi_server.testing import MODEL, Reply, ToolCall
from tests.functional.dialects.completions import (
    HELLO,
    WEATHER,
    Weather,
    complete,
    messages,
    with_headers,
)


@pytest.mark.parametrize("streams", [False, True])
def test_the_client_runs_its_tools_and_brings_the_results(scripted, client, streams):
    scripted.script(
        Reply(
            "Let me look.",
            tool_calls=[
                ToolCall("Weather", {"city": "Zürich"}),
                ToolCall("Weather", {"city": "B"}),
            ],
        ),
        "Sunny in both.",
    )
    asked = {"model": MODEL, "messages": [HELLO], "tools": WEATHER}
    if streams:
        with client.chat.completions.stream(**asked) as stream:
            completion = stream.get_final_completion()
    else:
        completion = client.chat.completions.parse(**asked)
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me look."
    calls = choice.message.tool_calls
    assert [call.function.parsed_arguments for call in calls] == [
        Weather(city="Zürich"),
        Weather(city="B"),
    ]
    echo = choice.message.model_dump(exclude={"parsed"})
    results = [{"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in calls]
    answer = complete(client, HELLO, echo, *results, tools=WEATHER)
    assert answer.choices[0].message.content == "Sunny in both."
    told = scripted.model_requests[-1]["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "tool", "tool"]
    assert told[1]["tool_calls"][0]["function"]["arguments"] == {"city": "Zürich"}
    assert [message["content"] for message in told[2:]] == ["sunny", "sunny"]


def test_calls_and_results_of_the_client_s_tools_stay_in_a_session(scripted, client):
    scripted.script(ToolCall("Weather", {"city": "Bern"}), "Sunny.")
    first, headers = with_headers(client, store=True, tools=WEATHER)
    named = {"X-Mochi-Session-Id": headers["x-mochi-session-id"]}
    call = first.choices[0].message.tool_calls[0]
    with pytest.raises(openai.BadRequestError) as raised:
        complete(client, HELLO, tools=WEATHER, extra_headers=named)
    assert raised.value.body["mochi_code"] == "MISSING_TOOL_RESULT"
    result: Any = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    answer = complete(client, result, tools=WEATHER, extra_headers=named)
    assert answer.choices[0].message.content == "Sunny."
    kept = messages(scripted, headers["x-mochi-session-id"])
    assert [each["role"] for each in kept] == ["user", "assistant", "tool", "assistant"]
    assert kept[2]["tool_name"] == "Weather"


def test_tools_of_this_server_run_inside_where_a_header_names_them(scripted, client):
    scripted.script(Reply("Let me see.", tool_calls=[ToolCall("add", {"a": 1, "b": 2})]), "Three.")
    answer = complete(client, extra_headers={"X-Mochi-Tools": "add"})
    message = answer.choices[0].message
    assert message.content == "Let me see.\n\nThree."
    assert message.tool_calls is None
    assert answer.choices[0].finish_reason == "stop"
    assert scripted.model_requests[-1]["messages"][-1]["content"] == "3"


def test_a_tool_of_this_server_that_needs_an_approval_is_denied(scripted, client):
    scripted.script(ToolCall("wipe"), "I may not.")
    answer = complete(client, extra_headers={"X-Mochi-Tools": "wipe"})
    assert answer.choices[0].message.content == "I may not."
    assert "wiped" not in scripted.model_requests[-1]["messages"][-1]["content"]


def test_tools_of_this_server_are_not_offered_unasked(scripted, client):
    complete(client)
    assert "tools" not in scripted.model_requests[-1]
    with pytest.raises(openai.NotFoundError) as raised:
        complete(client, extra_headers={"X-Mochi-Tools": "nobody"})
    assert raised.value.body["mochi_code"] == "TOOL_NOT_FOUND"


def test_a_name_that_both_offer_is_refused(client):
    tool: Any = {"type": "function", "function": {"name": "add"}}
    with pytest.raises(openai.BadRequestError) as raised:
        complete(client, tools=[tool], extra_headers={"X-Mochi-Tools": "add"})
    assert raised.value.param == "tools[0].function.name"


def test_both_kinds_of_tools_may_be_called_in_one_answer(scripted, client):
    scripted.script(
        Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2}), ToolCall("Weather", {"city": "Bern"})])
    )
    answer = complete(client, tools=WEATHER, extra_headers={"X-Mochi-Tools": "add"})
    assert answer.choices[0].finish_reason == "tool_calls"
    assert [call.function.name for call in answer.choices[0].message.tool_calls] == ["Weather"]


def test_a_choice_that_nobody_can_force_is_told_to_the_model_and_noted(scripted, client):
    _, headers = with_headers(client, tools=WEATHER, tool_choice="required")
    assert "tool_choice" in headers["x-mochi-warning"]
    _, headers = with_headers(client, tools=WEATHER, tool_choice="none")
    assert "x-mochi-warning" not in headers or "tool_choice" not in headers["x-mochi-warning"]
    assert "tools" not in scripted.model_requests[-1]


def test_a_choice_that_a_provider_can_force_reaches_it(scripted, client):
    scripted.script(ToolCall("Weather", {"city": "Bern"}))
    answer, headers = with_headers(
        client, model="openai:gpt-5.1", tools=WEATHER, tool_choice="required"
    )
    assert answer.choices[0].finish_reason == "tool_calls"
    assert "tool_choice" not in headers.get("x-mochi-warning", "")
    assert scripted.model_requests[-1]["tool_choice"] == "required"
