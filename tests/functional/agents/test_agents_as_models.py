"""An agent answers a session itself: ``agent:<name>`` is its model."""

import time

import pytest

from tests.functional.agents.conftest import calls
from tests.functional.conftest import MODEL, text_of

PLAN = "1. Note it."
SUMS = '''
__all__ = ["add"]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''


@pytest.fixture(scope="module")
def server(start_once):
    # An agent's answer takes two rounds, however few a turn may have.
    return start_once(MOCHI_DEFAULT_MODEL=MODEL, MOCHI_MAX_TOOL_ROUNDS="1")


@pytest.fixture(scope="module", autouse=True)
def tools(server):
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "sums.py").write_text(SUMS)


@pytest.fixture
def new_session(scribe):
    def make(policy="never_confirm", **settings):
        tools = {"tools": ["add"], "execution_policy": policy}
        return scribe.chat.new_session(model="agent:scribe", tool_settings=tools, **settings)

    return make


@pytest.fixture
def instruction(script):
    """Return how to write a message that scripts what the agent's own model answers."""
    return lambda *rounds: script(*rounds, per_request=True)


def agent_chats(scribe):
    found = scribe.chat.http.get("/agents/chats").json()["chats"]
    return {chat["session_id"] for chat in found}


def agent_sessions(events):
    return [event.data["session_id"] for event in events if event.name == "agent_complete"]


def test_the_agent_plans_acts_and_answers_as_the_sessions_model(scribe, new_session, instruction):
    session_id = new_session()
    message = instruction(PLAN, "I note it.", calls(("note", {"text": "milk"})), "Noted.")

    events = scribe.chat.say(session_id, message)

    kinds = [event.name for event in events]
    order = [kind for i, kind in enumerate(kinds) if i == 0 or kinds[i - 1] != kind]
    assert order == [
        "turn_started",
        "agent_start",
        "agent_planning",
        "agent_execution",
        "agent_tool_call",
        "agent_tool_result",
        "agent_execution",
        "agent_complete",
        "tool_continuation_start",
        "thinking_delta",
        "content_delta",
        "message_complete",
        "done",
    ]
    assert next(e.data["instruction"] for e in events if e.name == "agent_start") == message
    assert text_of(events) == events[-2].data["content"] == "I note it.\n\nNoted."
    assert events[-2].data["thinking"] == PLAN
    assert events[-2].data["model"] == "agent:scribe"
    assert events[-2].data["eval_count"] > 0
    assert scribe.runs() == ["milk"]
    assert scribe.chat.http.get(f"/sessions/{session_id}/context").json()["tools"] == 1
    saved = scribe.chat.messages(session_id)
    assert [each["role"] for each in saved] == ["user", "assistant", "tool", "assistant"]
    assert saved[-1]["content"] == "I note it.\n\nNoted."


def test_the_next_message_goes_on_in_the_agents_session_and_a_fork_gets_one_of_its_own(
    scribe, new_session, instruction
):
    session_id = new_session()
    [first] = agent_sessions(scribe.chat.say(session_id, instruction(PLAN, "One.", "Two.")))
    fork = scribe.chat.http.post(f"/sessions/{session_id}/fork", json={}).json()["session_id"]

    [second] = agent_sessions(scribe.chat.say(session_id, instruction(PLAN, "Three.", "Four.")))
    [other] = agent_sessions(scribe.chat.say(fork, "And then?"))

    assert second == first
    told = [m["content"] for m in scribe.agent_chat(first)["messages"] if m["role"] == "user"]
    assert len(told) == 2
    assert other != first
    [told] = [m["content"] for m in scribe.agent_chat(other)["messages"] if m["role"] == "user"]
    assert "<assistant>\nOne.\n\nTwo.\n</assistant>" in told
    assert told.endswith("And then?")


def test_an_answer_that_is_made_again_comes_from_a_new_session(scribe, new_session, instruction):
    session_id = new_session()
    [first] = agent_sessions(scribe.chat.say(session_id, instruction(PLAN, "One.", "Two.")))

    events = scribe.chat.say(session_id)

    assert text_of(events) == "One.\n\nTwo."
    assert agent_sessions(events) != [first]


def test_the_agents_tools_ask_under_the_sessions_policy_and_the_turn_waits_for_the_answer(
    scribe, new_session, instruction
):
    session_id = new_session("always_confirm")
    http = scribe.chat.http
    message = instruction(PLAN, calls(("note", {"text": "b"})), "Noted.")
    first = http.post(f"/chat/{session_id}", json={"message": message})
    assert first.status_code == 202, first.text
    [asked] = first.json()["pending_confirmations"]
    assert (asked["agent_name"], asked["tool_name"]) == ("scribe", "note")
    body = {"confirmation_id": asked["confirmation_id"], "approved": True}
    assert http.post(f"/chat/{session_id}/confirm-tool", json=body).status_code == 200

    second = http.post(f"/chat/{session_id}", json={})

    assert second.status_code == 200, second.text
    assert second.json()["message"]["content"] == "Noted."
    assert scribe.runs() == ["b"]


def test_an_agent_that_breaks_off_is_an_error_and_can_be_tried_again(
    scribe, new_session, instruction
):
    session_id = new_session()
    events = scribe.chat.say(session_id, instruction(PLAN, "I begin.", ""))
    assert events[-2].name == "error"
    assert events[-2].data["code"] == "AGENT_STOPPED"
    assert "empty answer" in events[-2].data["message"]
    assert text_of(events) == "I begin."

    again = scribe.chat.say(session_id)

    assert [e.name for e in again].count("agent_start") == 1


def test_the_model_can_be_named_wherever_a_model_can(scribe, new_session, instruction):
    http = scribe.chat.http
    assert http.get("/models/agent:scribe").json()["provider"] == "agent"
    message = instruction(PLAN, "One.", "Two.")
    made = http.post("/chat", json={"model": "agent:scribe", "message": message})
    assert made.json()["message"]["content"] == "One.\n\nTwo."
    session_id = scribe.chat.new_session()
    changed = http.patch(f"/sessions/{session_id}", json={"model": "agent:scribe"})
    assert changed.status_code == 200, changed.text
    assert text_of(scribe.chat.say(session_id, message)) == "One.\n\nTwo."


def test_what_is_no_agent_is_no_model_and_nothing_is_made(scribe):
    http = scribe.chat.http
    before = http.get("/sessions").json()["total"]
    for path in ("/sessions", "/chat"):
        body = (
            {"model": "agent:scrib", "message": "x"}
            if path == "/chat"
            else {"model": "agent:scrib"}
        )
        refused = http.post(path, json=body)
        assert refused.status_code == 404
        assert refused.json()["error"]["code"] == "MODEL_NOT_FOUND"
        assert "did you mean agent:scribe?" in refused.json()["error"]["message"]
    assert http.get("/sessions").json()["total"] == before


@pytest.mark.parametrize(
    ("body", "field"), [({"selected_tools": ["add"]}, "selected_tools"), ({"think": True}, "think")]
)
def test_what_an_agent_can_not_be_asked_for_is_refused(scribe, new_session, body, field):
    session_id = new_session()
    refused = scribe.chat.http.post(f"/chat/{session_id}", json={"message": "x", **body})
    assert refused.status_code == 422, refused.text
    assert refused.json()["error"]["details"]["field"] == field
    assert scribe.chat.messages(session_id) == []


@pytest.fixture
def complete(scribe):
    """Return how to ask for a chat completion of the agent."""

    def ask(*messages, **body):
        roles = ["user" if index % 2 == 0 else "assistant" for index in range(len(messages))]
        said = [{"role": r, "content": c} for r, c in zip(roles, messages, strict=True)]
        body = {"model": "agent:scribe", "messages": said, **body}
        return scribe.chat.http.post(f"{scribe.server.url}/v1/chat/completions", json=body)

    return ask


def test_a_chat_completion_of_an_agent_leaves_no_session_of_it(scribe, complete, instruction):
    before = agent_chats(scribe)

    answer = complete(instruction(PLAN, calls(("note", {"text": "milk"})), "Noted.")).json()

    [choice] = answer["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Noted.", "stop")
    assert choice["message"]["reasoning_content"] == PLAN
    assert "tool_calls" not in choice["message"]
    assert answer["model"] == "agent:scribe"
    assert scribe.runs() == ["milk"]
    deadline = time.monotonic() + 60
    while agent_chats(scribe) != before:  # it goes once the turn has ended
        assert time.monotonic() < deadline


def test_an_agent_is_told_the_conversation_that_a_client_keeps_itself(complete):
    answer = complete("My name is Ann.", "Hello Ann.", "What is my name?").json()

    # A model without a script repeats what it was told.
    told = answer["choices"][0]["message"]["reasoning_content"]
    assert "<user>\nMy name is Ann.\n</user>\n\n<assistant>\nHello Ann.\n</assistant>" in told
    assert "</conversation>\n\nWhat is my name?" in told


def test_what_an_agent_must_ask_for_is_denied_where_nobody_can_be_asked(
    scribe, complete, instruction
):
    asked = instruction(PLAN, calls(("erase", {"text": "milk"})), "I may not.")
    assert complete(asked).json()["choices"][0]["message"]["content"] == "I may not."
    assert scribe.runs() == []


def test_tools_of_the_client_are_refused_for_an_agent(complete):
    function = {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}
    refused = complete("x", tools=[{"type": "function", "function": function}])
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["param"], error["type"]) == ("tools", "invalid_request_error")
    assert "agent:scribe" in error["message"]


def test_an_unknown_agent_is_an_unknown_model_for_other_clients_too(complete):
    refused = complete("x", model="agent:scrib")
    assert refused.status_code == 404
    assert refused.json()["error"]["code"] == "model_not_found"
    assert "did you mean agent:scribe?" in refused.json()["error"]["message"]
