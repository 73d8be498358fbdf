"""What Codex needs of Responses, as it sends it; the program itself is in ``openai_clients``."""

import json
import socket
import time
from typing import Any

import httpx
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall
from tests.functional.conftest import NO_TLS
from tests.functional.dialects.responding import native, respond, sessions, sweep

CODEX = {"originator": "codex_exec"}
PATCH = "*** Begin Patch\n*** Add File: a\n+hello\n*** End Patch\n"
TOOLS: Any = [
    {
        "type": "custom",
        "name": "apply_patch",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin_patch"},
    },
    {
        "type": "namespace",
        "name": "mcp__box",
        "description": "A box.",
        "tools": [{"type": "function", "name": "open", "parameters": {"type": "object"}}],
    },
    {"type": "web_search"},
]
CALLS = Reply(
    reasoning="Hm",
    tool_calls=[ToolCall("apply_patch", {"input": PATCH}), ToolCall("mcp__box__open", {})],
)
TRIGGER = {"type": "compaction_trigger"}
SAID: Any = [
    {"role": "user", "content": "I am Ada."},
    {"role": "assistant", "content": "Hello Ada!"},
]


def post(server: MochiServer, headers: Any = CODEX, **body: Any) -> httpx.Response:
    return httpx.post(
        f"{server.url}/v1/responses",
        json={"model": MODEL, "input": "Hi", "stream": True, **body},
        headers=headers,
        trust_env=False,
        verify=NO_TLS,
        timeout=60,
    )


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = answer.text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def failure_of(answer: httpx.Response) -> tuple[str, str]:
    response = events_of(answer)[-1]["response"]
    return response["status"], response["error"]["code"]


# --- Tools -------------------------------------------------------------------------------------


def test_custom_tools_and_namespaces_are_called_and_answered(scripted, client):
    scripted.script(CALLS, "Done.")
    first = respond(client, tools=TOOLS)
    _, patch, opened = first.output
    assert (patch.type, patch.name, patch.input) == ("custom_tool_call", "apply_patch", PATCH)
    assert (opened.name, opened.to_dict()["namespace"]) == ("open", "mcp__box")
    offered = [tool["function"]["name"] for tool in scripted.model_requests[0]["tools"]]
    assert offered == ["apply_patch", "mcp__box__open"]
    results = [
        {"type": "custom_tool_call_output", "call_id": patch.call_id, "output": "Success."},
        {"type": "function_call_output", "call_id": opened.call_id, "output": "It is empty."},
    ]
    second = respond(client, results, previous_response_id=first.id, tools=TOOLS)
    assert second.output_text == "Done."
    said = [each["content"] for each in scripted.model_requests[-1]["messages"]]
    assert said[-2:] == ["Success.", "It is empty."]
    items = [*reversed(client.responses.input_items.list(second.id).data)]
    assert [item.type for item in items[-5:]] == [
        *("reasoning", "custom_tool_call", "function_call"),
        *("custom_tool_call_output", "function_call_output"),
    ]


def test_a_response_is_the_same_once_its_events_are_gone(scripted, client):
    scripted.script(CALLS)
    include = ["reasoning.encrypted_content"]
    with client.responses.stream(model=MODEL, input="Hi", tools=TOOLS, include=include) as stream:
        made = stream.get_final_response()
    assert made.output[0].encrypted_content.startswith("m1.")
    known = client.responses.retrieve(made.id).to_dict()
    sweep(scripted, made)
    saved = client.responses.retrieve(made.id).to_dict()
    assert saved == known
    assert [item["type"] for item in saved["output"]] == [
        *("reasoning", "custom_tool_call", "function_call"),
    ]


def test_what_is_left_out_is_told(scripted):
    answer = post(
        scripted,
        tools=TOOLS,
        input=[
            {"type": "additional_tools", "role": "developer", "tools": [{"type": "shell"}]},
            {"type": "web_search_call", "id": "ws_1"},
            {"role": "user", "content": "Hi"},
        ],
    )
    assert answer.headers["x-mochi-warning"].split("; ") == [
        "tools[2]: web_search is not available here",
        "input[0].tools[0]: shell is not available here",
        "input[1]: web_search_call is not taken",
    ]


def test_sealed_reasoning_goes_back_to_the_model(scripted, client):
    scripted.script(CALLS, "Done.")
    store = {"store": False, "include": ["reasoning.encrypted_content"], "tools": TOOLS}
    first = respond(client, **store)
    items = [item.to_dict(warnings=False) for item in first.output]
    items[0] |= {"summary": [], "content": None}
    results = [
        {"type": "custom_tool_call_output", "call_id": items[1]["call_id"], "output": "1"},
        {"type": "function_call_output", "call_id": items[2]["call_id"], "output": "2"},
    ]
    respond(client, [{"role": "user", "content": "Hi"}, *items, *results], **store)
    thoughts = [each.get("thinking") for each in scripted.model_requests[-1]["messages"]]
    assert "Hm" in thoughts


# --- Failures ----------------------------------------------------------------------------------


def test_a_conversation_that_is_too_long_is_one_that_codex_shortens(scripted):
    scripted.script(Reply(status=400, error_line="x"))
    too_long = "a " * 600_000
    assert failure_of(post(scripted, input=too_long)) == ("failed", "context_length_exceeded")
    assert post(scripted, {}, input=too_long).status_code == 400


def test_what_no_retry_mends_is_told_in_the_stream_of_codex_alone(scripted):
    scripted.script(Reply(status=400), Reply(status=400))
    assert failure_of(post(scripted)) == ("failed", "invalid_prompt")
    refused = post(scripted, {})
    assert refused.status_code == 502
    assert refused.headers["x-should-retry"] == "false"


def test_requests_that_make_no_sense_have_a_status_for_codex_too(scripted):
    assert post(scripted, temperature=9).status_code == 400
    assert post(scripted, model="nobody").status_code == 404


# --- Sockets -----------------------------------------------------------------------------------


def test_a_socket_is_refused_so_that_codex_takes_the_other_way_at_once(scripted):
    host, port = scripted.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(
            f"GET /v1/responses HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: Upgrade\r\n"
            "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        head = connection.recv(4096).decode()
    assert head.startswith("HTTP/1.1 426 ")
    plain = httpx.get(f"{scripted.url}/v1/responses", trust_env=False, verify=NO_TLS, timeout=60)
    assert (plain.status_code, plain.headers["allow"]) == (405, "POST")
    assert plain.json()["error"]["mochi_code"] == "METHOD_NOT_ALLOWED"


# --- Compaction --------------------------------------------------------------------------------


def test_a_trigger_gets_one_record_that_is_taken_back(scripted, client):
    scripted.script(Reply("Ada has said hello."), "You are Ada.")
    before = sessions(scripted)
    events = events_of(post(scripted, input=[*SAID, TRIGGER], store=False, tools=TOOLS))
    [item] = events[-1]["response"]["output"]
    assert [each["type"].removeprefix("response.") for each in events] == [
        *("created", "in_progress", "output_item.added", "output_item.done", "completed"),
    ]
    assert events[-2]["item"] == item
    assert sessions(scripted) == before
    again = respond(client, [SAID[0], item, {"role": "user", "content": "Who am I?"}])
    assert again.output_text == "You are Ada."
    asked = str(scripted.model_requests[-1])
    assert "Ada has said hello." in asked
    assert "Hello Ada!" not in asked


def test_a_trigger_without_a_stream_and_one_with_nothing_before_it(scripted):
    scripted.script(Reply("Ada has said hello."))
    made = post(scripted, input=[*SAID, TRIGGER], stream=False).json()
    assert [item["type"] for item in made["output"]] == ["compaction"]
    refused = post(scripted, input=[TRIGGER])
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input")


def test_a_record_that_can_not_be_written_fails_in_the_stream(scripted):
    scripted.script(Reply(status=400, times=9))
    assert failure_of(post(scripted, input=[*SAID, TRIGGER]))[0] == "failed"


def test_a_record_takes_the_place_of_a_turn_until_its_client_leaves(serve_once):
    server = serve_once(MOCHI_MAX_ACTIVE_TURNS="1")
    server.script(Reply("A record of it.", stall_seconds=600, stall_after=1), "Hello.", "Hello.")
    body = {"input": [*SAID, TRIGGER], "stream": True}  # by the default model
    with httpx.stream(
        "POST", f"{server.url}/v1/responses", json=body, trust_env=False, verify=NO_TLS, timeout=60
    ) as stream:
        lines = stream.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        assert json.loads(first[6:])["response"]["model"]
        refused = post(server, {}, input="Hi")
        assert refused.status_code == 503
        assert refused.json()["error"]["mochi_code"] == "TOO_MANY_TURNS"
        again = post(server, {}, input=[*SAID, TRIGGER], stream=False)
        assert again.json()["error"]["mochi_code"] == "TOO_MANY_TURNS"
        deadline = time.monotonic() + 60
        while not server.model_requests:  # the silent answer is taken by it
            assert time.monotonic() < deadline
            time.sleep(0.02)
        lines.close()
    while (answer := post(server, {}, input="Hi")).status_code == 503:
        assert time.monotonic() < deadline
    assert answer.status_code == 200


def test_an_idempotency_key_of_a_record_has_no_effect(scripted):
    scripted.script(Reply("Ada has said hello."))
    made = post(scripted, {"idempotency-key": "k"}, input=[*SAID, TRIGGER], stream=False)
    assert made.headers["x-mochi-warning"].startswith("Idempotency-Key: ")


# --- Sessions ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saving(serve_once) -> MochiServer:
    return serve_once(MOCHI_CLIENT_SESSIONS="codex")


def test_a_conversation_of_codex_is_one_session(saving):
    before = {*sessions(saving)}
    saving.script(CALLS, "Done.")
    headers = {**CODEX, "session-id": "01a222b2-33ac-7a82-a039-5a2bc15dd1e1"}
    user = {"role": "user", "content": "Make a file."}
    stateless = {"store": False, "tools": TOOLS}
    first = events_of(post(saving, headers, input=[user], **stateless))
    calls = first[-1]["response"]["output"]
    results = [
        {"type": "custom_tool_call_output", "call_id": calls[1]["call_id"], "output": "1"},
        {"type": "function_call_output", "call_id": calls[2]["call_id"], "output": "2"},
    ]
    events_of(post(saving, headers, input=[user, *calls, *results], **stateless))
    events_of(post(saving, headers, input=[user], store=False))  # of its own, without tools
    deadline = time.monotonic() + 30
    while len(said := _said_since(saving, before)) < 5:
        assert time.monotonic() < deadline, said
        time.sleep(0.02)
    assert [each["role"] for each in said] == [
        *("user", "assistant", "tool", "tool", "assistant"),
    ]


def _said_since(server: MochiServer, before: set[str]) -> list[dict[str, Any]]:
    """Return the messages of the one new session."""
    new = {*sessions(server)} - before
    assert len(new) < 2
    return [
        message
        for name in new
        for message in native(server, f"/sessions/{name}/messages")["messages"]
    ]


def test_a_compacted_conversation_of_codex_adds_only_what_is_new(saving):
    before = {*sessions(saving)}
    headers = {**CODEX, "session-id": "01a222b2-33ac-7a82-a039-5a2bc15dd1e2"}
    own = {"type": "input_text", "text": "<environment_context>here</environment_context>"}
    old = {"role": "user", "content": [own, {"type": "input_text", "text": "Go on."}]}
    saving.script("One.", "A record.", "Two.")
    events_of(post(saving, headers, input=[old], store=False, tools=TOOLS))
    first = {"role": "assistant", "content": "One."}
    made = events_of(post(saving, headers, input=[old, first, TRIGGER], store=False))
    [record] = made[-1]["response"]["output"]
    again = {"role": "user", "content": "Go on."}
    events_of(post(saving, headers, input=[old, record, again], store=False, tools=TOOLS))
    deadline = time.monotonic() + 30
    while len(said := _said_since(saving, before)) < 4:
        assert time.monotonic() < deadline, said
        time.sleep(0.02)
    assert [each["content"] for each in said] == ["Go on.", "One.", "Go on.", "Two."]
