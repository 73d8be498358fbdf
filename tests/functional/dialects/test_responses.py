"""``POST /v1/responses`` as the official package speaks it, against a real server."""

import shutil
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall
from tests.functional.dialects.conftest import ServeOnce

TOOLS = '''
"""Tools of this server."""

__all__ = ["add", "wipe"]
__destructive__ = ["wipe"]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def wipe(path: str) -> str:
    """Remove a file."""
    return f"wiped {path}"
'''
SKILL = """\
---
description: Takes notes.
---
You take notes.
"""
OURS: Any = {"type": "mcp", "server_label": "mochi", "require_approval": "never"}
ASKING: Any = {**OURS, "require_approval": "always", "allowed_tools": ["wipe"]}
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Tell the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


class Person(BaseModel):
    name: str
    age: int


CALL_WEATHER = Reply(tool_calls=[ToolCall("get_weather", {"city": "Paris"})])
CALL_WIPE = Reply("I will.", tool_calls=[ToolCall("wipe", {"path": "x"})])


@pytest.fixture(scope="module")
def shared(serve_once: ServeOnce) -> MochiServer:
    server = serve_once()
    (server.data_dir / "tools").mkdir(exist_ok=True)
    (server.data_dir / "tools" / "own.py").write_text(TOOLS)
    clerk = server.data_dir / "agents" / "clerk"
    clerk.mkdir(parents=True)
    (clerk / "SKILL.md").write_text(SKILL)
    (clerk / "__init__.py").write_text('from .clerk import add\n\n__all__ = ["add"]\n')
    (clerk / "clerk.py").write_text(TOOLS)
    return server


@pytest.fixture
def server(shared: MochiServer) -> MochiServer:
    shared.reset()
    return shared


@pytest.fixture(scope="module")
def client(shared: MochiServer) -> Iterator[openai.OpenAI]:
    http = httpx.Client(trust_env=False, timeout=30)
    with openai.OpenAI(
        base_url=f"{shared.url}/v1", api_key="dummy", max_retries=0, http_client=http
    ) as client:
        yield client


def respond(client: openai.OpenAI, said: Any = "Hello!", **fields: Any) -> Any:
    return client.responses.create(model=MODEL, input=said, **fields)


def asked_of_model(server: MochiServer) -> list[tuple[str, str]]:
    """Return what the model was sent last."""
    return [(each["role"], each["content"]) for each in server.model_requests[-1]["messages"]]


def native(server: MochiServer, path: str) -> Any:
    return httpx.get(f"{server.api_url}{path}", trust_env=False, timeout=30).json()


def sessions(server: MochiServer) -> list[str]:
    return [each["session_id"] for each in native(server, "/sessions")["sessions"]]


def session_of(response: Any) -> str:
    session_id: str = response.id.removeprefix("resp_")[:10]
    return session_id


def test_a_response_is_whole_and_its_session_is_kept(server, client):
    server.script(Reply(["Hel", "lo!"], reasoning="They greet."))
    response = respond(
        client,
        reasoning={"effort": "medium"},
        temperature=0.5,
        metadata={"topic": "greeting"},
        max_output_tokens=50,
    )
    assert response.status == "completed"
    assert response.output_text == "Hello!"
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.output[0].summary[0].text == "They greet."
    assert (response.temperature, response.max_output_tokens) == (0.5, 50)
    assert response.metadata == {"topic": "greeting"}
    assert response.usage.total_tokens == (
        response.usage.input_tokens + response.usage.output_tokens
    )
    assert response.usage.output_tokens > 0
    assert response.completed_at >= response.created_at
    assert session_of(response) in sessions(server)
    assert server.model_requests[-1]["options"]["temperature"] == 0.5


def test_the_packages_stream_helper_understands_the_stream(server, client):
    server.script(Reply(["Hel", "lo!"], reasoning=["They ", "greet."]))
    with client.responses.stream(
        model=MODEL, input="Hello!", reasoning={"effort": "low"}
    ) as stream:
        events = list(stream)
        response = stream.get_final_response()
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "Hello!"
    thoughts = [e.delta for e in events if e.type == "response.reasoning_summary_text.delta"]
    assert "".join(thoughts) == "They greet."
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (response.output_text, response.status) == ("Hello!", "completed")


def test_a_response_goes_on_from_the_last_one_and_instructions_do_not(server, client):
    server.script("My name is Mochi.", "I said so.")
    first = respond(client, "Who are you?", instructions="Speak French.")
    assert asked_of_model(server)[0] == ("system", "Speak French.")
    second = respond(client, "Really?", previous_response_id=first.id)
    assert session_of(second) == session_of(first)
    assert second.previous_response_id == first.id
    assert asked_of_model(server) == [
        ("user", "Who are you?"),
        ("assistant", "My name is Mochi."),
        ("user", "Really?"),
    ]


def test_an_older_response_is_forked_right_after_it(server, client):
    server.script("One.", "Two.", "Three.")
    first = respond(client, "a")
    second = respond(client, "b", previous_response_id=first.id)
    other = respond(client, "c", previous_response_id=first.id)
    assert session_of(other) != session_of(first)
    assert other.previous_response_id == first.id
    assert asked_of_model(server) == [("user", "a"), ("assistant", "One."), ("user", "c")]
    kept = native(server, f"/sessions/{session_of(second)}")["messages"]
    assert [message["content"] for message in kept] == ["a", "One.", "b", "Two."]


def test_a_conversation_is_continued_with_the_model_of_the_request(server, client):
    conversation = client.conversations.create(
        items=[{"type": "message", "role": "user", "content": "My name is Ada."}]
    )
    server.script("Hello Ada.", "You are Ada.")
    first = respond(client, "Greet me.", conversation=conversation.id)
    assert first.conversation.id == conversation.id
    respond(client, "Who am I?", conversation={"id": conversation.id})
    assert [content for _, content in asked_of_model(server)][-2:] == ["Hello Ada.", "Who am I?"]


def test_a_response_that_is_not_stored_is_in_no_list_and_followed_by_none(server, client):
    before = sessions(server)
    server.script("Secret.")
    response = respond(client, store=False)
    assert (response.output_text, response.store) == ("Secret.", False)
    assert sessions(server) == before
    with pytest.raises(openai.BadRequestError) as refused:
        respond(client, previous_response_id=response.id)
    assert refused.value.code == "previous_response_not_found"
    assert refused.value.param == "previous_response_id"


def test_a_response_in_the_background_is_there_at_once_and_later_whole(server, client):
    server.script("Done.")
    response = respond(client, background=True)
    assert (response.status, response.background) == ("queued", True)
    with client.responses.stream(response_id=response.id) as stream:
        final = stream.get_final_response()
    assert (final.status, final.output_text) == ("completed", "Done.")
    assert client.responses.retrieve(response.id).output_text == "Done."


def test_tools_of_the_server_run_in_it_and_show_as_calls_of_mochi(server, client):
    server.script(Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2})]), "It is 3.")
    response = respond(client, "1 + 2?", tools=[{**OURS, "allowed_tools": ["add"]}])
    call, answer = response.output
    assert (call.type, call.server_label, call.name) == ("mcp_call", "mochi", "add")
    assert (call.arguments, call.output, call.error) == ('{"a":1,"b":2}', "3", None)
    assert answer.content[0].text == "It is 3."
    offered = [tool["function"]["name"] for tool in server.model_requests[0]["tools"]]
    assert offered == ["add"]


def test_without_names_all_tools_of_the_server_are_offered_and_else_none(server, client):
    respond(client, tools=[OURS])
    offered = [tool["function"]["name"] for tool in server.model_requests[-1]["tools"]]
    assert {"add", "wipe"} <= set(offered)
    respond(client)
    assert not server.model_requests[-1].get("tools")


@pytest.mark.parametrize(("approve", "status"), [(True, "completed"), (False, "failed")])
def test_a_call_that_needs_an_approval_asks_and_goes_on_with_the_answer(
    server, client, approve, status
):
    server.script(CALL_WIPE, "Finished.")
    with client.responses.stream(model=MODEL, input="Wipe x.", tools=[ASKING]) as stream:
        first = stream.get_final_response()
    text, question = first.output
    assert (first.status, text.content[0].text) == ("completed", "I will.")
    assert (question.type, question.name) == ("mcp_approval_request", "wipe")
    assert question.arguments == '{"path":"x"}'
    answer: Any = {
        "type": "mcp_approval_response",
        "approval_request_id": question.id,
        "approve": approve,
    }
    second = respond(client, [answer], previous_response_id=first.id, tools=[ASKING])
    call, said = second.output
    assert (call.type, call.status) == ("mcp_call", status)
    assert call.approval_request_id == question.id
    assert (call.name, call.arguments) == ("wipe", '{"path":"x"}')
    assert call.output == ("wiped x" if approve else None)
    assert said.content[0].text == "Finished."
    with pytest.raises(openai.APIStatusError):
        respond(client, [answer], previous_response_id=second.id, tools=[ASKING])


def test_an_approval_names_its_conversation_by_itself(server, client):
    """The AI SDK sends its whole history with an approval, and no previous response."""
    server.script(CALL_WIPE, "Finished.")
    first = respond(client, "Wipe x.", tools=[ASKING])
    items = [item.model_dump(exclude_none=True) for item in first.output]
    answer = {
        "type": "mcp_approval_response",
        "approval_request_id": items[-1]["id"],
        "approve": True,
    }
    second = respond(client, [{"role": "user", "content": "Wipe x."}, *items, answer])
    assert session_of(second) == session_of(first)
    assert second.output[0].output == "wiped x"


def test_a_function_of_the_client_goes_there_and_back(server, client):
    server.script(CALL_WEATHER, "It rains.")
    first = respond(client, "Weather?", tools=[WEATHER])
    [call] = first.output
    assert (call.type, call.name, call.arguments) == (
        "function_call",
        "get_weather",
        '{"city":"Paris"}',
    )
    with pytest.raises(openai.BadRequestError, match=f"No tool output found.*{call.call_id}"):
        respond(client, "And?", previous_response_id=first.id, tools=[WEATHER])
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    second = respond(client, [output], previous_response_id=first.id, tools=[WEATHER])
    assert second.output_text == "It rains."
    assert asked_of_model(server)[-1] == ("tool", "rain")


def test_a_history_of_items_comes_back_whole(server, client):
    server.script(CALL_WEATHER, "It rains.")
    said: Any = [{"role": "user", "content": "Weather?"}]
    first = respond(client, said, tools=[WEATHER], store=False)
    said += [item.model_dump(exclude_none=True) for item in first.output]
    call_id = first.output[0].call_id
    said.append({"type": "function_call_output", "call_id": call_id, "output": "rain"})
    second = respond(client, said, tools=[WEATHER], store=False)
    assert second.output_text == "It rains."
    assert [role for role, _ in asked_of_model(server)] == ["user", "assistant", "tool"]


def test_the_form_of_an_answer_reaches_the_model(server, client):
    with client.responses.stream(model=MODEL, input="Who?", text_format=Person) as stream:
        for _ in stream:
            pass
        response = stream.get_final_response()
    assert isinstance(response.output_parsed, Person)
    assert server.model_requests[-1]["format"]["required"] == ["name", "age"]


def test_a_name_that_client_and_server_offer_is_refused(server, client):
    with pytest.raises(openai.BadRequestError) as refused:
        respond(client, tools=[OURS, {**WEATHER, "name": "add"}])
    assert refused.value.param == "tools[1].name"


def test_an_agent_is_one_call_with_its_name(server, client):
    use = ToolCall("agent", {"agent": "clerk", "instruction": "Note it."})
    server.script(Reply(tool_calls=[use]), "1. Note it.", "I begin.", "Noted.", "The clerk did it.")
    tools = [{**OURS, "allowed_tools": ["agent:clerk"]}]
    with client.responses.stream(
        model=MODEL, input="Note it.", tools=tools, include=["mochi.agent_events"]
    ) as stream:
        kinds = [event.type for event in stream]
        response = stream.get_final_response()
    call, answer = response.output
    assert (call.type, call.name, call.status) == ("mcp_call", "clerk", "completed")
    assert call.arguments == '{"instruction":"Note it."}'
    assert "Noted." in call.output
    assert answer.content[0].text == "The clerk did it."
    assert "mochi.agent.planning" in kinds
    with pytest.raises(openai.NotFoundError):
        respond(client, tools=[{**OURS, "allowed_tools": ["agent:nobody"]}])


def test_a_choice_that_can_not_be_forced_is_told_and_noted(server, client):
    raw = client.responses.with_raw_response.create(
        model=MODEL, input="Weather?", tools=[WEATHER], tool_choice="required"
    )
    assert "tool_choice" in raw.headers["x-mochi-warning"]
    assert raw.parse().tool_choice == "required"


def test_a_key_stands_for_one_response(server, client):
    server.script("One.", "Two.")
    key = {"Idempotency-Key": "same"}
    first = respond(client, extra_headers=key)
    again = respond(client, extra_headers=key)
    assert (again.id, again.output_text) == (first.id, "One.")
    with pytest.raises(openai.BadRequestError):
        respond(client, "Other.", extra_headers=key)


def test_a_client_that_is_not_stored_can_answer_questions(server, client):
    server.script(CALL_WIPE, "Finished.")
    before = sessions(server)
    first = respond(client, "Wipe x.", tools=[ASKING], store=False)
    question = first.output[-1]
    answer: Any = {
        "type": "mcp_approval_response",
        "approval_request_id": question.id,
        "approve": True,
    }
    second = respond(client, [answer], store=False)
    assert second.output[0].output == "wiped x"
    assert sessions(server) == before


def test_a_limit_leaves_a_response_incomplete(server, client):
    server.script(" ".join(["word"] * 50))
    response = respond(client, max_output_tokens=5)
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"


def test_an_error_in_mid_stream_fails_the_response_and_is_kept(server, client):
    server.script(Reply(["Hel", "lo!"], error_line="runner died"))
    events = list(respond(client, stream=True))
    assert events[-1].type == "response.failed"
    failed = events[-1].response
    assert failed.error.message == "runner died"
    assert failed.output[0].content[0].text == "Hel"
    assert client.responses.retrieve(failed.id).error.message == "runner died"


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"model": "nobody"}, 404, "model_not_found", "model"),
        ({"previous_response_id": "resp_x"}, 400, "previous_response_not_found", None),
        ({"conversation": "conv_0000000000"}, 404, "conversation_not_found", "conversation"),
        (
            {"previous_response_id": "resp_x", "conversation": "conv_x"},
            400,
            "invalid_value",
            "previous_response_id",
        ),
        ({"tools": [{"type": "web_search"}]}, 400, "invalid_value", "tools[0].type"),
        ({"input": []}, 400, "invalid_value", "input"),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
            400,
            "invalid_value",
            "input[0].call_id",
        ),
        ({"tools": [{**OURS, "allowed_tools": ["nothing"]}]}, 404, None, None),
    ],
)
def test_what_is_refused_says_why_and_nothing_is_saved(server, client, fields, status, code, param):
    before = sessions(server)
    with pytest.raises(openai.APIStatusError) as refused:
        client.responses.create(**{"model": MODEL, "input": "Hello!", **fields})
    assert refused.value.status_code == status
    assert refused.value.response.headers["x-should-retry"] == "false"
    if code is not None:
        assert refused.value.code == code
    if param is not None:
        assert refused.value.param == param
    assert sessions(server) == before


def sweep(server: MochiServer, response: Any) -> None:
    """Remove the events of a response, once all that is kept of it is there."""
    turn_id = response.id[-20:]
    if response.error is not None:
        end = server.data_dir / "responses" / session_of(response) / f"{turn_id}.end"
        deadline = time.monotonic() + 30
        while not end.exists():
            assert time.monotonic() < deadline, "its end was not kept"
            time.sleep(0.01)
    shutil.rmtree(server.data_dir / ".mochi" / "turns" / session_of(response))


@pytest.mark.parametrize(
    ("replies", "fields"),
    [
        ([Reply(["Hel", "lo!"], reasoning="They greet.")], {"reasoning": {"effort": "low"}}),
        ([Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2})]), "3."], {"tools": [OURS]}),
        ([Reply(tool_calls=[ToolCall("add", {"a": "x"})]), "No."], {"tools": [OURS]}),
        ([CALL_WIPE], {"tools": [ASKING], "metadata": {"a": "b"}}),
        ([CALL_WEATHER], {"tools": [WEATHER]}),
        ([" ".join(["word"] * 50)], {"max_output_tokens": 5}),
        ([Reply(["Hel", "lo!"], error_line="runner died")], {}),
    ],
    ids=["text", "tool", "failed tool", "question", "function", "limit", "error"],
)
def test_a_response_is_the_same_when_its_events_are_gone(server, client, replies, fields):
    server.script(*replies)
    final = list(respond(client, stream=True, **fields))[-1].response
    assert client.responses.retrieve(final.id).to_dict() == final.to_dict()
    sweep(server, final)
    assert client.responses.retrieve(final.id).to_dict() == final.to_dict()
