"""A model that repeats a call until its turn is ended: every protocol tells which error it was."""

import json
from typing import Any

import httpx
import openai
import pytest

from mochi_server.testing import Reply, ToolCall
from tests.functional.conftest import NO_TLS
from tests.functional.dialects.completions import complete

WITH_TOOL: Any = {"extra_headers": {"X-Mochi-Tools": "add"}}
SERVER_TOOL: Any = {
    "type": "mcp",
    "server_label": "mochi",
    "allowed_tools": ["add"],
    "require_approval": "never",
}


@pytest.fixture(autouse=True)
def loop(scripted):
    reply = Reply("Again. ", tool_calls=[ToolCall("add", {"a": 1, "b": 2})])
    scripted.script(*[reply] * 6)


@pytest.fixture
def http(scripted):
    with httpx.Client(
        base_url=scripted.api_url, trust_env=False, verify=NO_TLS, timeout=60
    ) as client:
        yield client


@pytest.fixture
def session_id(http):
    settings = {"tools": ["add"], "execution_policy": "never_confirm"}
    body = {"model": "qwen3:14b", "tool_settings": settings}
    return http.post("/sessions", json=body).json()["session_id"]


def events_of(answer):
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if "data: {" in line]
    return [json.loads(line) for line in lines]


def test_chat_completions_fail_with_it_and_are_not_sent_again(client):
    with pytest.raises(openai.InternalServerError) as raised:
        complete(client, **WITH_TOOL)
    assert (raised.value.status_code, raised.value.body["mochi_code"]) == (502, "TOOL_LOOP")
    assert raised.value.response.headers["x-should-retry"] == "false"


def test_a_streamed_chat_completion_ends_with_it(client):
    with pytest.raises(openai.APIError) as raised:
        list(complete(client, stream=True, **WITH_TOOL))
    assert raised.value.body["mochi_code"] == "TOOL_LOOP"


def test_a_response_fails_with_it(client):
    stream = client.responses.create(
        model="qwen3:14b", input="Hello!", tools=[SERVER_TOOL], stream=True
    )
    last = list(stream)[-1]
    assert (last.type, last.response.status) == ("response.failed", "failed")
    assert last.response.error.to_dict()["mochi_code"] == "TOOL_LOOP"


def test_a_stream_of_the_ai_sdk_ends_with_its_words(http, session_id):
    message = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "Hello!"}]}
    answer = http.post("/ui/chat", json={"id": session_id, "messages": [message]})
    last = events_of(answer)[-1]
    assert last["type"] == "error"
    assert "6 times with the same arguments" in last["errorText"]


def test_a_run_of_ag_ui_fails_with_it(http, session_id):
    message = {"id": "u", "role": "user", "content": "Hello!"}
    body = {"threadId": session_id, "runId": "r", "messages": [message], "tools": []}
    last = events_of(http.post("/agui", json=body))[-1]
    assert (last["type"], last["code"]) == ("RUN_ERROR", "TOOL_LOOP")
