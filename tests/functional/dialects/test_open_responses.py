"""Every kind of request that Open Responses describes, checked by its schema of answers.

Requests and checks are written after the specification, for its own suite is on no registry.
"""

import base64
import json
from collections.abc import Callable
from typing import Any

import httpx
import jsonschema
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall
from tests.functional.conftest import NO_TLS
from tests.unit.dialects_app.responses.streams import REQUIRED
from tests.unit.sessions_app.attachments.images import png

SEEING = "scripted-vision:latest"
TEXT, COUNT, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
STATUS = {"enum": ["in_progress", "completed", "incomplete"]}


def maybe(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": [*properties], "properties": properties}


def each(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema}


PART = an_object(
    type={"const": "output_text"}, text=TEXT, annotations=each({}), logprobs={"type": "array"}
)
SUMMARY = an_object(type={"const": "summary_text"}, text=TEXT)
ITEM = {
    "anyOf": [
        an_object(
            type={"const": "message"}, id=TEXT, role={"const": "assistant"}, status=STATUS,
            content=each(PART),
        ),
        an_object(
            type={"const": "function_call"}, id=TEXT, call_id=TEXT, name=TEXT, arguments=TEXT,
            status=STATUS,
        ),
        an_object(type={"const": "reasoning"}, id=TEXT, summary=each(SUMMARY)),
    ]
}  # fmt: skip
OPENED_ITEM = {"anyOf": [*ITEM["anyOf"], an_object(type={"const": "message"}, content=each({}))]}
TOOL = an_object(
    type={"const": "function"}, name=TEXT, description=maybe(TEXT),
    parameters=maybe({"type": "object"}), strict=maybe({"type": "boolean"}),
)  # fmt: skip
USAGE = an_object(
    input_tokens=COUNT, output_tokens=COUNT, total_tokens=COUNT,
    input_tokens_details=an_object(cached_tokens=COUNT),
    output_tokens_details=an_object(reasoning_tokens=COUNT),
)  # fmt: skip
RESOURCE = {
    "required": sorted(REQUIRED),
    **an_object(
        id=TEXT, object={"const": "response"}, created_at=COUNT, completed_at=maybe(COUNT),
        status={"enum": [*STATUS["enum"], "queued", "failed", "cancelled"]},
        incomplete_details=maybe(an_object(reason=TEXT)), model=TEXT,
        previous_response_id=maybe(TEXT), instructions=maybe({}), output=each(ITEM),
        error=maybe(an_object(code=TEXT, message=TEXT)), tools=each(TOOL),
        tool_choice={"anyOf": [{"enum": ["none", "auto", "required"]}, {"type": "object"}]},
        truncation={"enum": ["auto", "disabled"]}, parallel_tool_calls={"type": "boolean"},
        text=an_object(format=an_object(type=TEXT)), top_p=NUMBER, presence_penalty=NUMBER,
        frequency_penalty=NUMBER, top_logprobs=COUNT, temperature=NUMBER,
        reasoning=maybe(an_object(effort=maybe(TEXT), summary=maybe(TEXT))), usage=maybe(USAGE),
        max_output_tokens=maybe(COUNT), max_tool_calls=maybe(COUNT), store={"type": "boolean"},
        background={"type": "boolean"}, service_tier=TEXT, metadata={"type": "object"},
        safety_identifier=maybe(TEXT), prompt_cache_key=maybe(TEXT),
    ),
}  # fmt: skip
IN_ITEM = {"item_id": TEXT, "output_index": COUNT}
IN_PART = {**IN_ITEM, "content_index": COUNT}
IN_SUMMARY = {**IN_ITEM, "summary_index": COUNT}
EVENTS = {
    **{
        f"response.{kind}": an_object(response=RESOURCE)
        for kind in ("created", "queued", "in_progress", "completed", "incomplete", "failed")
    },
    "response.output_item.added": an_object(output_index=COUNT, item=OPENED_ITEM),
    "response.output_item.done": an_object(output_index=COUNT, item=ITEM),
    "response.content_part.added": an_object(**IN_PART, part=PART),
    "response.content_part.done": an_object(**IN_PART, part=PART),
    "response.output_text.delta": an_object(**IN_PART, delta=TEXT, logprobs=each({})),
    "response.output_text.done": an_object(**IN_PART, text=TEXT, logprobs=each({})),
    "response.reasoning_summary_part.added": an_object(**IN_SUMMARY, part=SUMMARY),
    "response.reasoning_summary_part.done": an_object(**IN_SUMMARY, part=SUMMARY),
    "response.reasoning_summary_text.delta": an_object(**IN_SUMMARY, delta=TEXT),
    "response.reasoning_summary_text.done": an_object(**IN_SUMMARY, text=TEXT),
    "response.function_call_arguments.delta": an_object(**IN_ITEM, delta=TEXT),
    "response.function_call_arguments.done": an_object(**IN_ITEM, arguments=TEXT),
}
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "Tells the weather of a place.",
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
    },
}
IMAGE = f"data:image/png;base64,{base64.b64encode(png(32, 32)).decode()}"
HISTORY = [("user", "I am Ada."), ("assistant", "Hello Ada!"), ("user", "Who am I?")]


def said(text: Any, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


REQUESTS: dict[str, dict[str, Any]] = {
    "a message": {"input": [said("Greet me in three words.")]},
    "a text": {"input": "Greet me in three words."},
    "a system prompt": {"input": [said("Speak like a pirate.", "system"), said("Greet me.")]},
    "reasoning": {"input": [said("Why?")], "reasoning": {"effort": "low"}},
    "a history": {"input": [said(text, role) for role, text in HISTORY]},
    "a tool": {"input": [said("Weather in Oslo?")], "tools": [WEATHER]},
    "options": {"input": "Hi", "temperature": 0.2, "top_p": 0.5, "max_output_tokens": 9000},
    "an image": {
        "model": SEEING,
        "input": [
            said(
                [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": IMAGE},
                ]
            )
        ],
    },
}


@pytest.fixture(scope="module")
def server(scripted_once: MochiServer) -> MochiServer:
    return scripted_once


def post(server: MochiServer, path: str = "", **body: Any) -> httpx.Response:
    body = {"model": MODEL, **body}
    url = f"{server.url}/v1/responses{path}"
    return httpx.post(url, json=body, trust_env=False, verify=NO_TLS, timeout=60)


def check(value: Any, schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(schema).validate(value)


def script(server: MochiServer, request: str) -> None:
    server.reset()
    if request == "a tool":
        server.script(Reply(tool_calls=[ToolCall("weather", {"place": "Oslo"})]))


@pytest.mark.parametrize("request_", REQUESTS)
def test_an_answer_has_every_field_of_the_schema(server, request_):
    script(server, request_)
    answer = post(server, **REQUESTS[request_])
    assert answer.status_code == 200, answer.text
    response = answer.json()
    check(response, RESOURCE)
    assert response["status"] == "completed"
    kinds = [item["type"] for item in response["output"]]
    assert kinds[-1] == ("function_call" if request_ == "a tool" else "message")


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_stream_has_only_events_of_the_schema_and_ends_with_the_answer(server, request_):
    script(server, request_)
    answer = post(server, **REQUESTS[request_], stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = answer.text.splitlines()
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    events = [json.loads(line[len("data: ") :]) for line in lines if line.startswith("data: {")]
    assert names == [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    for event in events:
        check(event, EVENTS[event["type"]])
    assert names[0] == "response.created"
    assert names[-1] == "response.completed"
    if request_ == "a tool":
        of_calls = [f"response.function_call_arguments.{kind}" for kind in ("delta", "done")]
        assert [name for name in names if name in of_calls] == of_calls


@pytest.mark.parametrize(
    "fields", [{"input": [said("Hi", "nobody")]}, {"input": "Hi", "temperature": 9}, {}]
)
def test_an_error_has_the_fields_of_the_schema(server, fields):
    answer = post(server, **fields)
    assert answer.status_code == 400
    check(answer.json(), an_object(error=an_object(type=TEXT, code=TEXT, message=TEXT, param={})))


def test_a_later_turn_names_the_one_before_it(server: MochiServer, connect: Callable[..., Any]):
    server.reset()
    first = post(server, input="I am Ada.").json()
    again = post(server, input="Who am I?", previous_response_id=first["id"]).json()
    check(again, RESOURCE)
    assert again["previous_response_id"] == first["id"]
    check(connect(server).responses.retrieve(again["id"]).to_dict(), RESOURCE)
