"""A form of the answer together with tools, as agents of today's libraries ask for it."""

import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall
from tests.functional.dialects.responding import furnish


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    degrees: int


class LookUp(BaseModel):
    """Look the weather up."""

    city: str


LOOK_UP: Any = [openai.pydantic_function_tool(LookUp)]
FUNCTION: Any = [openai.pydantic_function_tool(LookUp)["function"] | {"type": "function"}]
OURS: Any = {
    "type": "mcp",
    "server_label": "mochi",
    "allowed_tools": ["add"],
    "require_approval": "never",
}
SAID: Any = [{"role": "user", "content": "Weather in Oslo?"}]
CALL = Reply("I look it up.", tool_calls=[ToolCall("LookUp", {"city": "Oslo"})])
FITS = '{"city": "Oslo", "degrees": 3}'


@pytest.fixture(scope="module")
def scripted_once(serve_once: Callable[..., MochiServer]) -> MochiServer:
    return furnish(serve_once(MOCHI_DEFAULT_MODEL=MODEL))


def sent(scripted: MochiServer) -> list[tuple[bool, bool]]:
    """Return which requests to the model had tools, and which a form."""
    return [("tools" in each, "format" in each) for each in scripted.model_requests]


def parse(client: openai.OpenAI, messages: Any = None, **fields: Any) -> Any:
    fields = {"model": MODEL, "tools": LOOK_UP, **fields}
    completion = client.chat.completions.parse(
        messages=messages or SAID, response_format=Weather, **fields
    )
    return completion.choices[0].message


def test_a_call_comes_before_an_answer_in_its_form(scripted, client):
    scripted.script(CALL, "Three degrees, and it rains.")
    asked = parse(client)
    assert (asked.parsed, asked.content) == (None, None)
    assert asked.reasoning_content == "I look it up."
    [call] = asked.tool_calls
    assert call.function.parsed_arguments == LookUp(city="Oslo")
    result = {"role": "tool", "tool_call_id": call.id, "content": "3, rain"}
    answer = parse(client, [*SAID, asked.model_dump(include={"role", "tool_calls"}), result])
    assert isinstance(answer.parsed, Weather)
    assert sent(scripted) == [(True, False), (True, False), (False, True)]


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
def test_an_answer_that_fits_is_not_asked_for_again(scripted, client, choice):
    scripted.script(FITS)
    answer = parse(client, tool_choice=choice)
    assert isinstance(answer.parsed, Weather)
    assert sent(scripted) == [(False, True) if choice == "none" else (True, False)]


@pytest.mark.parametrize("words", [FITS, "Three degrees, and it rains."])
def test_a_stream_never_shows_an_answer_that_does_not_fit(scripted, client, words):
    scripted.script(words)
    with client.chat.completions.stream(
        model=MODEL, messages=SAID, tools=LOOK_UP, response_format=Weather
    ) as stream:
        texts = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion().choices[0].message
    assert "".join(texts) == final.content
    assert isinstance(final.parsed, Weather)
    scripted.script(words)
    with client.responses.stream(
        model=MODEL, input="Weather in Oslo?", tools=FUNCTION, text_format=Weather
    ) as stream:
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
        response = stream.get_final_response()
    assert "".join(texts) == response.output_text
    assert isinstance(response.output_parsed, Weather)


def test_tools_of_this_server_run_before_an_answer_in_its_form(scripted, client):
    scripted.script(Reply("I add.", tool_calls=[ToolCall("add", {"a": 1, "b": 2})]), "It is three.")
    response = client.responses.parse(
        model=MODEL, input="Weather in Oslo?", tools=[OURS], text_format=Weather
    )
    assert isinstance(response.output_parsed, Weather)
    assert [item.type for item in response.output] == ["reasoning", "mcp_call", "message"]
    scripted.script(Reply("I add.", tool_calls=[ToolCall("add", {"a": 1, "b": 2})]), "It is three.")
    answer = parse(client, tools=openai.omit, extra_headers={"X-Mochi-Tools": "add"})
    assert isinstance(answer.parsed, Weather)


def test_any_object_can_be_wanted_beside_tools(scripted, client):
    scripted.script("Three degrees.")
    completion = client.chat.completions.create(
        model=MODEL, messages=SAID, tools=LOOK_UP, response_format={"type": "json_object"}
    )
    assert isinstance(json.loads(completion.choices[0].message.content), dict)


def test_an_agent_answers_in_the_form(scripted, client):
    scripted.script("1. Note it.", "I begin.", "I noted it.")
    answer = parse(client, tools=openai.omit, model="agent:clerk")
    assert isinstance(answer.parsed, Weather)
