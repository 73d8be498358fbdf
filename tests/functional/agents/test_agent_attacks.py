"""What somebody approved for an agent is good for that run only, whatever became of its caller."""

import time

import pytest

from tests.functional.agents.conftest import Scribe, calls

CONFIRM = "tool_call_confirmation_required"
PLAN = "1. Erase it."


@pytest.fixture
def suspended(scribe):
    """Return a session whose agent waits for an approval, the question, and the agent's call."""
    session_id = scribe.new_session("always_confirm")
    call = scribe.instruct(PLAN, calls(("erase", {"text": "a"})), "Erased.")
    answer = scribe.chat.http.post(f"/chat/{session_id}", json={"message": scribe.message(call)})
    assert answer.status_code == 202, answer.text
    [question] = answer.json()["pending_confirmations"]
    return session_id, question, call


def confirm(scribe, session_id, question, *, approved=True):
    body = {"confirmation_id": question["confirmation_id"], "approved": approved}
    return scribe.chat.http.post(f"/chat/{session_id}/confirm-tool", json=body)


def pending(scribe, session_id):
    answer = scribe.chat.http.get(f"/chat/{session_id}/confirmations")
    assert answer.status_code == 200, answer.text
    return answer.json()["confirmations"]


def edit_first_message(scribe, session_id, content):
    answer = scribe.chat.http.put(f"/sessions/{session_id}/messages/0", json={"content": content})
    assert answer.status_code == 200, answer.text


def newest_agent_chat(scribe):
    return scribe.chat.http.get("/agents/chats").json()["chats"][0]["session_id"]


def test_a_question_of_an_agent_goes_with_the_message_that_called_it(scribe, suspended):
    session_id, question, _ = suspended
    edit_first_message(scribe, session_id, "Something else.")
    assert pending(scribe, session_id) == []
    assert confirm(scribe, session_id, question).status_code == 404


@pytest.mark.parametrize("edited", [True, False], ids=["edited", "a new message"])
def test_an_approval_for_an_agent_is_not_used_by_another_call_of_it(scribe, suspended, edited):
    session_id, question, call = suspended
    assert confirm(scribe, session_id, question).status_code == 200
    again = scribe.message(call | {"session_id": newest_agent_chat(scribe)})
    if edited:
        edit_first_message(scribe, session_id, again)
    body = {} if edited else {"message": again}
    answer = scribe.chat.http.post(f"/chat/{session_id}", json=body)
    assert scribe.runs() == []
    assert answer.status_code == 202, answer.text
    [asked_anew] = answer.json()["pending_confirmations"]
    assert asked_anew["confirmation_id"] != question["confirmation_id"]


def test_resuming_asks_the_agents_question_again_under_its_id(scribe, suspended):
    session_id, question, _ = suspended
    answer = scribe.chat.http.post(f"/chat/{session_id}", json={})
    assert answer.status_code == 202, answer.text
    [again] = answer.json()["pending_confirmations"]
    assert again["confirmation_id"] == question["confirmation_id"]
    assert confirm(scribe, session_id, question).status_code == 200
    assert scribe.chat.http.post(f"/chat/{session_id}", json={}).status_code == 200
    assert scribe.runs() == ["-a"]


@pytest.mark.parametrize("path", ["sessions/{}", "chat/{}/stream", "chat/{}/confirmations"])
def test_an_agents_session_is_not_reached_as_a_persons(scribe, suspended, path):
    session_id, question, _ = suspended
    agents = newest_agent_chat(scribe)
    assert scribe.chat.http.get(path.format(agents)).status_code == 404
    assert scribe.chat.http.post(f"/chat/{agents}", json={"message": "Hi"}).status_code == 404
    assert confirm(scribe, agents, question).status_code == 404
    assert [asked["confirmation_id"] for asked in pending(scribe, session_id)] == [
        question["confirmation_id"]
    ]


def test_an_agent_that_went_on_after_a_denial_does_not_run_again_after_a_crash(start, script):
    server = start()
    scribe = Scribe(server, script)
    session_id = scribe.new_session("confirm_destructive")
    instruction = script(
        PLAN,
        calls(("note", {"text": "a"})),
        calls(("erase", {"text": "a"})),
        {"text_message": {"length": 2000}},
        per_request=True,
        words_per_second=100,
    )
    message = scribe.message({"agent": "scribe", "instruction": instruction})
    with scribe.chat.stream(session_id, message=message, detached=True) as events:
        for event in events:
            if event.name == CONFIRM:
                other = Scribe.__new__(Scribe)
                other.chat = server.chat()
                assert confirm(other, session_id, event.data, approved=False).status_code == 200
            if event.name == "agent_execution":
                break
    assert scribe.runs() == ["a"]
    server.kill()
    found = start().chat()
    kept = found.messages(session_id)
    assert kept[-1]["role"] == "tool"
    assert "interrupted" in kept[-1]["content"]
    deadline = time.monotonic() + 60
    while found.http.get(f"/sessions/{session_id}/status").json()["active_turn"]:
        assert time.monotonic() < deadline
    assert found.say(session_id)[-1].name == "done"
    assert scribe.runs() == ["a"]
