"""Conversations are kept in providers' caches, as the setting and the profile say."""

import pytest

KEYS = {"OPENAI_API_KEY": "sk-of-nobody", "ANTHROPIC_API_KEY": "sk-of-nobody"}
CLAUDE = "anthropic:claude-haiku-4-5"


@pytest.fixture(scope="module")
def server(start_once, asked):
    # Summaries would be asked for in between.
    variables = {**asked.variables, **KEYS, "MOCHI_SUMMARIZATION_ENABLED": "false"}
    return start_once(**variables, MOCHI_PROMPT_CACHE="1h")


def test_claude_keeps_a_conversation_for_as_long_as_is_configured(chat, asked, script):
    session_id = chat.new_session(model=CLAUDE, system_prompt="Be brief.")

    chat.say(session_id, script("Hello."))

    hour = {"type": "ephemeral", "ttl": "1h"}
    assert asked.requests[-1]["cache_control"] == hour
    assert asked.requests[-1]["system"][-1]["cache_control"] == hour


def test_a_profile_may_keep_nothing(chat, asked, script):
    provider, _, model = CLAUDE.partition(":")
    profile = {"provider": provider, "model": model, "parameters": {"cache": "off"}}
    made = chat.http.post("/profiles", json={"name": "uncached", **profile})
    assert made.status_code == 201, made.text
    assert made.json()["parameters"]["cache"] == "off"

    chat.say(chat.new_session(model="profile:uncached"), script("Hello."))

    assert "cache" not in str(asked.requests[-1])


def test_the_second_turn_with_openai_reads_the_first_from_its_cache(chat, asked, script):
    session_id = chat.new_session(model="openai:gpt-5.1")

    chat.say(session_id, script("Fine.") + "How are you? " * 600)
    second = chat.say(session_id, script("Bye."))

    assert {request["prompt_cache_key"] for request in asked.requests[-2:]} == {session_id}
    usage = second[-2].data["turn_usage"]
    assert usage["cached_tokens"] >= 1024
    assert usage["cache_write_tokens"] == usage["input_tokens"] - usage["cached_tokens"]
    whole = chat.http.get(f"/sessions/{session_id}/status").json()["usage"]
    assert whole["cache_write_tokens"] > usage["cache_write_tokens"]
    assert whole["cached_tokens"] == usage["cached_tokens"]
