"""What an agent is asked with, and what calling one costs: models, and the tool that is offered."""

import pytest

from tests.functional.agents.conftest import SKILL, calls


@pytest.mark.parametrize(
    ("wanted", "used"),
    [
        (None, "qwen3:14b"),
        ("anthropic:claude-haiku-4-5", "anthropic:claude-haiku-4-5"),
        ("removed-since:7b", "qwen3:14b"),
    ],
)
def test_an_agent_whose_model_is_missing_takes_the_callers(make_scribe, script, wanted, used):
    name = f"wants_{(wanted or 'nothing').partition(':')[0].replace('-', '_')}"
    scribe = make_scribe(script, names=[name])
    if wanted is not None:
        skill = scribe.server.data_dir / "agents" / name / "SKILL.md"
        skill.write_text(SKILL.replace("---\nYou", f"model: {wanted}\n---\nYou"))
    session_id = scribe.new_session(names=[name])
    call = scribe.instruct("1. Note it.", calls(("note", {"text": "x"})), "Noted.", agent=name)

    events = scribe.chat.say(session_id, scribe.message(call))

    complete = next(event.data for event in events if event.name == "agent_complete")
    assert complete["output"].endswith("Noted.")
    kept = scribe.agent_chat(complete["session_id"])
    assert kept["metadata"]["model"] == used
    assert {m["model"] for m in kept["messages"] if m["role"] == "assistant"} == {used}


def test_what_the_next_request_would_send_counts_the_tool_that_calls_agents(scribe):
    without = scribe.chat.http.get(f"/sessions/{scribe.chat.new_session()}/context").json()
    within = scribe.chat.http.get(f"/sessions/{scribe.new_session()}/context").json()

    assert (without["tools"], without["tool_tokens"]) == (0, 0)
    assert within["tools"] == 1
    assert within["tool_tokens"] > 50
