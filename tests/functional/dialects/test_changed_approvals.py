"""A call whose arguments a person changed shows what really ran, in every form, at any time."""

import json
from typing import Any

import httpx
import pytest

from mochi_server.testing import MODEL
from tests.functional.conftest import NO_TLS
from tests.functional.dialects.responding import (
    ASKING,
    CALL_WIPE,
    furnish,
    respond,
    session_of,
    sweep,
)


@pytest.fixture(scope="module")
def scripted_once(serve_once):
    return furnish(serve_once())


def native(scripted, path: str, body: Any) -> Any:
    answer = httpx.post(
        f"{scripted.api_url}{path}", json=body, trust_env=False, verify=NO_TLS, timeout=30
    )
    assert answer.status_code == 200, answer.text
    return answer.json() if answer.headers["content-type"] == "application/json" else answer.text


def asked(scripted, client):
    """Begin a response that asks whether x may be wiped."""
    scripted.script(CALL_WIPE, "Finished.")
    response = respond(client, "Wipe x.", tools=[ASKING])
    return response, response.output[-1]


def decide(scripted, response, question, **decision: Any) -> str:
    """Answer a question elsewhere; return its name there."""
    path = f"/chat/{session_of(response)}"
    pending = httpx.get(
        f"{scripted.api_url}{path}/confirmations", trust_env=False, verify=NO_TLS, timeout=30
    )
    [open_one] = pending.json()["confirmations"]
    assert question.id.endswith(open_one["confirmation_id"].removeprefix("conf_"))
    name: str = open_one["confirmation_id"]
    native(scripted, f"{path}/confirm-tool", {"confirmation_id": name, **decision})
    return name


def approval(question) -> dict[str, Any]:
    return {
        "type": "mcp_approval_response",
        "approval_request_id": question.id,
        "approve": True,
    }


def shown(response) -> list[tuple[str, Any]]:
    """Return the calls and the questions of a response, with their arguments."""
    return [
        (item.type, json.loads(item.arguments))
        for item in response.output
        if item.type in ("mcp_call", "mcp_approval_request")
    ]


CHANGED = {"path": "y"}


def require_what_ran(call, question) -> None:
    assert (call.type, call.name) == ("mcp_call", "wipe")
    assert json.loads(call.arguments) == CHANGED
    assert (call.output, call.error, call.status) == ("wiped y", None, "completed")
    assert call.approval_request_id == question.id


def test_a_changed_call_shows_what_ran_live_and_after_the_sweep(scripted, client):
    first, question = asked(scripted, client)
    decide(scripted, first, question, approved=True, arguments=CHANGED)
    with client.responses.stream(
        model=MODEL, input=[approval(question)], previous_response_id=first.id
    ) as stream:
        events = list(stream)
        streamed = stream.get_final_response()
    [told] = [each for each in events if each.type == "response.mcp_call_arguments.done"]
    assert json.loads(told.arguments) == CHANGED
    require_what_ran(streamed.output[0], question)
    second = client.responses.retrieve(streamed.id)
    require_what_ran(second.output[0], question)
    sweep(scripted, second)
    assert client.responses.retrieve(second.id).output == second.output
    assert shown(client.responses.retrieve(first.id)) == [("mcp_approval_request", {"path": "x"})]
    kinds = [item.type for item in client.responses.input_items.list(second.id, order="asc")]
    assert kinds == ["message", "message", "mcp_approval_request"]


def test_a_turn_that_was_resumed_elsewhere_shows_what_ran(scripted, client):
    first, question = asked(scripted, client)
    decide(scripted, first, question, approved=True, arguments=CHANGED)
    session_id = session_of(first)
    native(scripted, f"/chat/{session_id}", {})
    status = httpx.get(
        f"{scripted.api_url}/sessions/{session_id}/messages", trust_env=False, verify=NO_TLS
    )
    turn_id = status.json()["messages"][-1]["turn_id"]
    name = f"resp_{session_id}{turn_id}"
    live = client.responses.retrieve(name)
    require_what_ran(live.output[0], question)
    sweep(scripted, live)
    assert client.responses.retrieve(name).output == live.output
    [call] = [
        item
        for item in client.conversations.items.list(f"conv_{session_id}")
        if item.type == "mcp_call"
    ]
    require_what_ran(call, question)


def test_a_turn_that_began_and_waited_elsewhere_shows_question_and_call(scripted, client):
    """One turn of our own protocol that waits for the answer has both question and call."""
    scripted.script(CALL_WIPE, "Finished.")
    settings = {"tools": ["wipe"], "execution_policy": "always_confirm"}
    made = httpx.post(
        f"{scripted.api_url}/sessions",
        json={"model": MODEL, "tool_settings": settings},
        trust_env=False,
        verify=NO_TLS,
        timeout=30,
    )
    session_id = made.json()["session_id"]
    with httpx.stream(
        "POST",
        f"{scripted.api_url}/chat/{session_id}/stream",
        json={"message": "Wipe x."},
        trust_env=False,
        verify=NO_TLS,
        timeout=30,
    ) as stream:
        events = stream.iter_lines()
        data: dict[str, Any] = {}
        turn_id = ""
        for line in events:
            if line.startswith("data: "):
                data = json.loads(line.removeprefix("data: "))
                turn_id = turn_id or data.get("turn_id", "")
            if "confirmation_id" in data:
                break
        body = {"confirmation_id": data["confirmation_id"], "approved": True}
        native(scripted, f"/chat/{session_id}/confirm-tool", body | {"arguments": CHANGED})
        result = json.loads(next(line for line in events if "wiped" in line).removeprefix("data: "))
        assert result["arguments"] == CHANGED
        assert result["confirmation_id"] == data["confirmation_id"]
        assert list(events)  # to the end
    live = client.responses.retrieve(f"resp_{session_id}{turn_id}")
    assert shown(live) == [("mcp_approval_request", {"path": "x"}), ("mcp_call", CHANGED)]
    sweep(scripted, live)
    assert client.responses.retrieve(live.id).output == live.output


def test_a_denied_call_names_its_question_after_the_sweep(scripted, client):
    first, question = asked(scripted, client)
    decide(scripted, first, question, approved=False)
    second = respond(
        client, [{**approval(question), "approve": False}], previous_response_id=first.id
    )
    assert second.output[0].approval_request_id == question.id
    assert second.output[0].status == "failed"
    sweep(scripted, second)
    assert client.responses.retrieve(second.id).output == second.output
