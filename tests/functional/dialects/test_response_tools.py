"""Tools of responses: the client's, the server's, and those that a person has to approve."""

from typing import Any

import openai
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall
from sessions_app.messages import INTERRUPTED_RESULT
from tests.functional.dialects.conftest import ServeOnce
from tests.functional.dialects.responding import (
    ASKING,
    CALL_WEATHER,
    CALL_WIPE,
    OURS,
    WEATHER,
    asked_of_model,
    furnish,
    respond,
    session_of,
    sessions,
)


@pytest.fixture(scope="module")
def scripted_once(serve_once: ServeOnce) -> MochiServer:
    return furnish(serve_once())


def test_tools_of_the_server_run_in_it_and_show_as_calls_of_mochi(scripted, client):
    scripted.script(Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2})]), "It is 3.")
    response = respond(client, "1 + 2?", tools=[{**OURS, "allowed_tools": ["add"]}])
    call, answer = response.output
    assert (call.type, call.server_label, call.name) == ("mcp_call", "mochi", "add")
    assert (call.arguments, call.output, call.error) == ('{"a":1,"b":2}', "3", None)
    assert answer.content[0].text == "It is 3."
    offered = [tool["function"]["name"] for tool in scripted.model_requests[0]["tools"]]
    assert offered == ["add"]


def test_without_names_all_tools_of_the_server_are_offered_and_else_none(scripted, client):
    respond(client, tools=[OURS])
    offered = [tool["function"]["name"] for tool in scripted.model_requests[-1]["tools"]]
    assert {"add", "wipe"} <= set(offered)
    respond(client)
    assert not scripted.model_requests[-1].get("tools")


@pytest.mark.parametrize(("approve", "status"), [(True, "completed"), (False, "failed")])
def test_a_call_that_needs_an_approval_asks_and_goes_on_with_the_answer(
    scripted, client, approve, status
):
    scripted.script(CALL_WIPE, "Finished.")
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


def test_an_approval_names_its_conversation_by_itself(scripted, client):
    """The AI SDK sends its whole history with an approval, and no previous response."""
    scripted.script(CALL_WIPE, "Finished.")
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


def test_a_function_of_the_client_goes_there_and_back(scripted, client):
    scripted.script(CALL_WEATHER, "It rains.")
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
    assert asked_of_model(scripted)[-1] == ("tool", "rain")


def test_a_history_of_items_comes_back_whole(scripted, client):
    scripted.script(CALL_WEATHER, "It rains.")
    said: Any = [{"role": "user", "content": "Weather?"}]
    first = respond(client, said, tools=[WEATHER], store=False)
    said += [item.model_dump(exclude_none=True) for item in first.output]
    call_id = first.output[0].call_id
    said.append({"type": "function_call_output", "call_id": call_id, "output": "rain"})
    second = respond(client, said, tools=[WEATHER], store=False)
    assert second.output_text == "It rains."
    assert [role for role, _ in asked_of_model(scripted)] == ["user", "assistant", "tool"]


def test_a_name_that_client_and_server_offer_is_refused(scripted, client):
    with pytest.raises(openai.BadRequestError) as refused:
        respond(client, tools=[OURS, {**WEATHER, "name": "add"}])
    assert refused.value.param == "tools[1].name"


def test_an_agent_is_one_call_with_its_name(scripted, client):
    use = ToolCall("agent", {"agent": "clerk", "instruction": "Note it."})
    scripted.script(
        Reply(tool_calls=[use]), "1. Note it.", "I begin.", "Noted.", "The clerk did it."
    )
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


def test_a_choice_that_can_not_be_forced_is_told_and_noted(scripted, client):
    raw = client.responses.with_raw_response.create(
        model=MODEL, input="Weather?", tools=[WEATHER], tool_choice="required"
    )
    assert "tool_choice" in raw.headers["x-mochi-warning"]
    assert raw.parse().tool_choice == "required"


def test_a_client_that_is_not_stored_can_answer_questions(scripted, client):
    scripted.script(CALL_WIPE, "Finished.")
    before = sessions(scripted)
    first = respond(client, "Wipe x.", tools=[ASKING], store=False)
    question = first.output[-1]
    answer: Any = {
        "type": "mcp_approval_response",
        "approval_request_id": question.id,
        "approve": True,
    }
    second = respond(client, [answer], store=False)
    assert second.output[0].output == "wiped x"
    assert sessions(scripted) == before


def test_who_says_something_instead_of_an_answer_takes_the_question_back(scripted, client):
    scripted.script(CALL_WIPE, "Then not.")
    first = respond(client, "Wipe x.", tools=[ASKING])
    answer: Any = {
        "type": "mcp_approval_response",
        "approval_request_id": first.output[-1].id,
        "approve": True,
    }
    both = [answer, {"role": "user", "content": "Stop."}]
    with pytest.raises(openai.BadRequestError) as refused:
        respond(client, both, previous_response_id=first.id)
    assert refused.value.param == "input"
    second = respond(client, "Stop.", previous_response_id=first.id, tools=[ASKING])
    assert second.output_text == "Then not."
    assert asked_of_model(scripted)[-2:] == [("tool", INTERRUPTED_RESULT), ("user", "Stop.")]
    with pytest.raises(openai.BadRequestError):
        respond(client, [answer], previous_response_id=second.id)


def test_a_policy_of_a_request_is_the_sessions_from_then_on(scripted, client):
    scripted.script(CALL_WIPE, "Finished.", CALL_WIPE, "Again.")
    free: Any = {**OURS, "require_approval": {"never": {"tool_names": ["wipe"]}}}
    first = respond(client, "Wipe x.", tools=[free])
    assert [item.type for item in first.output] == ["message", "mcp_call", "message"]
    silent: Any = {"type": "mcp", "server_label": "mochi"}
    second = respond(client, "Again.", tools=[silent], previous_response_id=first.id)
    assert [item.type for item in second.output] == ["message", "mcp_call", "message"]


def test_a_key_stands_for_the_response_that_ran_an_approved_call(scripted, client):
    scripted.script(CALL_WIPE, "Finished.")
    question = respond(client, "Wipe x.", tools=[ASKING]).output[-1]
    answer: Any = {
        "type": "mcp_approval_response",
        "approval_request_id": question.id,
        "approve": True,
    }
    key = {"Idempotency-Key": "approved"}
    first = respond(client, [answer], extra_headers=key)
    again = respond(client, [answer], extra_headers=key)
    assert (again.id, again.output_text) == (first.id, "Finished.")
    assert again.output == first.output


def test_a_key_stands_for_the_response_to_a_function_s_output(scripted, client):
    scripted.script(CALL_WEATHER, "It is sunny.")
    conversation = client.conversations.create().id
    call = respond(client, tools=[WEATHER], conversation=conversation).output[-1]
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
    key = {"Idempotency-Key": "output"}
    first = respond(client, [output], conversation=conversation, extra_headers=key)
    again = respond(client, [output], conversation=conversation, extra_headers=key)
    assert (again.id, again.output_text) == (first.id, "It is sunny.")
