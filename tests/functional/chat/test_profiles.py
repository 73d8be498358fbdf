"""Profiles as the models of sessions, over HTTP."""

import pytest


@pytest.fixture
def profile(chat):
    def make(name, **body):
        body = {"provider": "anthropic", "model": "claude-haiku-4-5", **body}
        answer = chat.http.post("/profiles", json={"name": name, **body})
        assert answer.status_code == 201, answer.text

    return make


def test_a_session_is_answered_by_its_profile(chat, profile, script):
    profile("deep", parameters={"thinking": True}, system_prompt="Think first.")
    session_id = chat.new_session(model="profile:deep")
    says = {"text_message": {"text": "So it is.", "reasoning": "Let me see."}}

    events = chat.say(session_id, script(says))

    complete = events[-2].data
    assert (complete["content"], complete["thinking"]) == ("So it is.", "Let me see.")
    assert complete["model"] == "profile:deep"
    assert complete["answered_by"] == "anthropic:claude-haiku-4-5"
    # The prompt is the profile's, and no part of the conversation.
    messages = chat.messages(session_id)
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[1]["model"] == "profile:deep"
    assert messages[1]["answered_by"] == "anthropic:claude-haiku-4-5"
    sent = chat.http.get(f"/sessions/{session_id}/context").json()["messages"]
    assert [(item["index"], item["role"]) for item in sent] == [
        (None, "system"),
        (0, "user"),
        (1, "assistant"),
    ]
    assert sent[0]["tokens"] > 4


def test_nobody_says_think_and_the_profile_does(chat, profile):
    profile("thinker", parameters={"thinking": "high"})
    profile("plain")

    thoughts = {}
    for name in ("thinker", "plain"):
        for think in (None, False):
            session_id = chat.new_session(model=f"profile:{name}")
            body = {} if think is None else {"think": think}
            events = chat.say(session_id, "Hello", **body)
            thoughts[name, think] = events[-2].data["thinking"] is not None

    assert thoughts == {
        ("thinker", None): True,
        ("thinker", False): False,
        ("plain", None): False,
        ("plain", False): False,
    }


def test_a_profile_that_was_removed_is_named_until_it_is_back(chat, profile, script):
    answered = chat.new_session()
    chat.say(answered, script("Hi"))
    profile("short-lived")
    session_id = chat.new_session(model="profile:short-lived")
    assert chat.http.delete("/profiles/short-lived").status_code == 204

    refused = chat.http.post(f"/chat/{session_id}", json={"message": "Hello"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "PROFILE_NOT_FOUND")
    none = {"model": "profile:none"}
    for refused in (
        chat.http.post("/sessions", json=none),
        chat.http.post("/sessions", json={"model": "qwen3:14b", "summary_model": "profile:none"}),
        chat.http.post(f"/sessions/{answered}/summarize", json=none),
    ):
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "PROFILE_NOT_FOUND")

    profile("short-lived")
    assert chat.http.post(f"/chat/{session_id}", json={"message": script("Hi")}).status_code == 200
