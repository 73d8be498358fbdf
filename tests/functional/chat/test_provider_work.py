"""What is done for a session beside its chat works with every provider: summaries and agents."""

import json

import pytest

from tests.functional.chat.conftest import VENDOR_MODELS

SKILL = """\
---
description: Takes notes.
---
You take notes.
"""
NOTES = '''
"""What the clerk can do."""

from pathlib import Path

__all__ = ["note"]
__destructive__ = []


def note(text: str) -> str:
    """Write a line down."""
    return f"noted {text}"
'''
PLAN = "1. Note it."


@pytest.fixture(scope="module")
def server(start_once, asked):
    server = start_once(**asked.variables)
    folder = server.data_dir / "agents" / "clerk"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "clerk.py").write_text(NOTES)
    (folder / "__init__.py").write_text("from .clerk import note\n__all__ = ['note']\n")
    return server


def model_of_chat(server, session_id):
    """Return the model of an agent's session, as its file says."""
    kept = server.data_dir / "agents" / "agent_chats" / f"{session_id}.json"
    return json.loads(kept.read_text())["metadata"]["model"]


@pytest.mark.parametrize("model", VENDOR_MODELS)
def test_a_session_is_summarized_by_its_own_model(chat, asked, model):
    session_id = chat.new_session(model=model)
    chat.say(session_id, "Good morning!")

    answer = chat.http.post(f"/sessions/{session_id}/summarize", json={})

    assert answer.status_code == 200, answer.text
    assert answer.json()["summary"]
    assert answer.json()["model_used"] == model
    sent = json.dumps(asked.requests[-1])
    assert "Good morning!" in sent
    assert "sentences on the whole conversation" in sent


def test_a_model_that_can_not_be_held_to_a_form_is_asked_in_words(chat, script, asked):
    session_id = chat.new_session(model="anthropic:claude-3-haiku")
    # What is summarized scripts the summary: the transcript is what the model is told.
    chat.say(session_id, script('Well: {"summary": "They met.", "topics": ["meeting"]}'))

    answer = chat.http.post(f"/sessions/{session_id}/summarize", json={})

    assert answer.status_code == 200, answer.text
    assert (answer.json()["summary"], answer.json()["topics"]) == ("They met.", ["meeting"])
    assert "output_config" not in asked.requests[-1]


def test_a_session_with_a_profile_is_summarized_by_what_the_profile_names(chat):
    made = chat.http.post(
        "/profiles", json={"name": "local", "provider": "ollama", "model": "qwen3:14b"}
    )
    assert made.status_code == 201, made.text
    session_id = chat.new_session(model="profile:local")
    chat.say(session_id, "Good morning!")

    answer = chat.http.post(f"/sessions/{session_id}/summarize", json={})

    assert answer.status_code == 200, answer.text
    assert answer.json()["model_used"] == "profile:local"


@pytest.mark.parametrize("model", VENDOR_MODELS[:3])
def test_an_agent_plans_and_acts_with_the_model_of_the_session(chat, server, script, calls, model):
    session_id = chat.new_session(
        model=model,
        agent_settings={"enabled_agents": ["clerk"]},
        tool_settings={"tools": [], "execution_policy": "never_confirm"},
    )
    instruction = script(PLAN, calls(("note", {"text": "milk"})), "Noted.", per_request=True)
    call = calls(("agent", {"agent": "clerk", "instruction": instruction}))

    events = chat.say(session_id, script(call, "All done.", per_request=True))

    assert events[-2].name == "message_complete", events[-2]
    assert events[-2].data["content"] == "All done."
    complete = next(event.data for event in events if event.name == "agent_complete")
    assert PLAN in complete["output"]
    assert "noted milk" in complete["output"]
    assert model_of_chat(server, complete["session_id"]) == model
    (executed,) = events[-2].data["tool_calls"]
    assert (executed["tool_name"], executed["success"]) == ("agent", True)


def test_an_agent_has_a_model_of_its_own_with_another_provider(chat, server, script, calls):
    skill = server.data_dir / "agents" / "clerk" / "SKILL.md"
    skill.write_text(SKILL.replace("notes.\n---", f"notes.\nmodel: {VENDOR_MODELS[0]}\n---", 1))
    session_id = chat.new_session(
        agent_settings={"enabled_agents": ["clerk"]},
        tool_settings={"tools": [], "execution_policy": "never_confirm"},
    )
    instruction = script(PLAN, calls(("note", {"text": "eggs"})), "Noted.", per_request=True)
    call = calls(("agent", {"agent": "clerk", "instruction": instruction}))

    events = chat.say(session_id, script(call, "All done.", per_request=True))

    complete = next(event.data for event in events if event.name == "agent_complete")
    assert "noted eggs" in complete["output"]
    assert model_of_chat(server, complete["session_id"]) == VENDOR_MODELS[0]
