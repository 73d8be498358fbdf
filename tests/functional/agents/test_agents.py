"""A model calls an agent, which plans and then acts, over HTTP and with real tool processes."""

import hashlib
import json
import sys
from pathlib import Path

import pytest

from tests.functional.agents.conftest import Scribe, calls

SDK_SERVER = Path(__file__).parents[2] / "unit" / "tools_app" / "mcp" / "programs" / "sdk_server.py"
PLAN = "1. Note it."


def test_an_agent_plans_acts_and_reports_while_everybody_watches(scribe):
    session_id = scribe.new_session()
    call = scribe.instruct(PLAN, calls(("note", {"text": "milk"})), "Noted.")
    events = scribe.chat.say(session_id, scribe.message(call))
    kinds = [event.name for event in events]
    order = [kind for i, kind in enumerate(kinds) if i == 0 or kinds[i - 1] != kind]
    assert order == [
        "turn_started",
        "agent_start",
        "agent_planning",
        "agent_tool_call",
        "agent_tool_result",
        "agent_execution",
        "agent_complete",
        "tool_continuation_start",
        "content_delta",
        "message_complete",
        "done",
    ]
    start, complete = (
        next(event.data for event in events if event.name == name)
        for name in ("agent_start", "agent_complete")
    )
    assert start["instruction"] == call["instruction"]
    who = {"agent_name": "scribe", "call_index": 0, "tool_call_id": start["tool_call_id"]}
    inside = [event.data for event in events if event.name.startswith("agent_")]
    assert all(data.items() >= who.items() for data in inside)
    plan = "".join(e.data["content"] for e in events if e.name == "agent_planning")
    assert plan.strip() == PLAN
    said = complete["output"]
    assert said.startswith(f"Session ID: {complete['session_id']}\n\n{PLAN}")
    assert 'note({"text":"milk"})' in said
    assert "noted milk" in said
    assert said.endswith("Noted.")
    assert scribe.runs() == ["milk"]
    assert [m["role"] for m in scribe.chat.messages(session_id)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    [executed] = events[-2].data["tool_calls"]
    assert (executed["tool_name"], executed["success"]) == ("agent", True)
    assert executed["result"] == said


def test_an_agent_whose_budget_is_used_up_ends_and_then_its_caller(scribe):
    budgets = scribe.server.data_dir / "budgets.json"
    budgets.write_text('[{"period": "total", "requests": 1000000}]')
    [standing] = scribe.chat.http.get("/budgets").json()["budgets"]
    limit = standing["spent"] + 2
    budgets.write_text(json.dumps([{"period": "total", "requests": limit}]))
    try:
        events = scribe.chat.say(
            scribe.new_session(),
            scribe.message(scribe.instruct(PLAN, calls(("note", {"text": "milk"})), "Noted.")),
        )
    finally:
        budgets.unlink()

    [complete] = [event.data for event in events if event.name == "agent_complete"]
    assert "The budget of" in complete["output"]
    assert PLAN in complete["output"]
    assert (events[-2].name, events[-2].data["code"]) == ("error", "BUDGET_EXCEEDED")
    assert scribe.runs() == []


def test_the_agents_session_is_an_ordinary_one_without_the_ephemeral_prompts(scribe):
    session_id = scribe.new_session()
    call = scribe.instruct(PLAN, calls(("note", {"text": "x"})), "Noted.")
    events = scribe.chat.say(session_id, scribe.message(call))
    agent_session = next(e.data["session_id"] for e in events if e.name == "agent_complete")
    kept = scribe.agent_chat(agent_session)
    shown = scribe.chat.http.get(f"/agents/chats/{agent_session}").json()
    assert shown["agent_settings"] == {"enabled_agents": [], "selection_metadata": None}
    assert shown["tool_settings"]["tools"] == []
    assert [m["role"] for m in kept["messages"]] == [
        "system",
        "user",
        "assistant",
        "assistant",
        "tool",
        "assistant",
    ]
    assert kept["messages"][0]["content"] == "You take notes."
    assert kept["messages"][1]["content"] == call["instruction"]
    assert kept["metadata"]["agent_name"] == "scribe"


def test_each_call_of_a_model_is_logged_with_its_purpose(scribe):
    logged = scribe.server.log.stat().st_size
    session_id = scribe.new_session()
    call = scribe.instruct(PLAN, calls(("note", {"text": "x"})), "Noted.")
    scribe.chat.say(session_id, scribe.message(call))

    lines = scribe.server.log.read_bytes()[logged:].decode().splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    purposes = [each["purpose"] for each in records if each["message"] == "model called"]
    ended = [each["purpose"] for each in records if each["message"] == "turn ended"]
    assert [each for each in purposes if each != "summary"] == ["chat", *["agent"] * 3, "chat"]
    assert ended == ["agent", "chat"]


def test_a_model_that_announces_before_it_acts_gets_a_second_chance_and_only_one(scribe):
    session_id = scribe.new_session()
    call = scribe.instruct(PLAN, "I will note it now.", calls(("note", {"text": "y"})), "Noted.")
    scribe.chat.say(session_id, scribe.message(call))
    assert scribe.runs() == ["y"]
    idle = scribe.instruct(PLAN, "I will.", "I really will.", calls(("note", {"text": "z"})))
    events = scribe.chat.say(session_id, scribe.message(idle))
    output = next(e.data["output"] for e in events if e.name == "agent_complete")
    assert output.endswith("I really will.")
    assert scribe.runs() == ["y"]


def test_a_changed_skill_holds_for_the_next_call_which_may_go_on_in_the_same_session(scribe):
    session_id = scribe.new_session()
    events = scribe.chat.say(session_id, scribe.message(scribe.instruct(PLAN, "One.", "Two.")))
    agent_session = next(e.data["session_id"] for e in events if e.name == "agent_complete")
    skill = scribe.server.data_dir / "agents" / "scribe" / "SKILL.md"
    before = skill.read_text()
    skill.write_text(before.replace("You take notes.", "You take short notes."))
    try:
        again = scribe.instruct("2. Go on.", "Three.", "Four.", session_id=agent_session)
        events = scribe.chat.say(session_id, scribe.message(again))
    finally:
        skill.write_text(before)
    complete = next(e.data for e in events if e.name == "agent_complete")
    assert complete["session_id"] == agent_session
    assert "One." not in complete["output"]
    kept = scribe.agent_chat(agent_session)["messages"]
    assert kept[0]["content"] == "You take short notes."
    assert [m["role"] for m in kept].count("system") == 1
    assert [m["role"] for m in kept].count("user") == 2


@pytest.mark.parametrize("whose", ["nobody's", "a person's", "a path", "another agent's"])
def test_a_session_that_is_not_the_agents_is_refused(make_scribe, script, whose):
    scribe = make_scribe(script, names=("scribe", "other"))
    session_id = scribe.new_session(names=("scribe", "other"))
    wanted = {"nobody's": "0123456789", "a person's": session_id, "a path": "../x"}.get(whose)
    if wanted is None:
        call = {**scribe.instruct(PLAN, "One.", "Two."), "agent": "other"}
        events = scribe.chat.say(session_id, scribe.message(call))
        wanted = next(e.data["session_id"] for e in events if e.name == "agent_complete")
    call = scribe.instruct(PLAN, "One.", "Two.", session_id=wanted)
    events = scribe.chat.say(session_id, scribe.message(call))
    assert "agent_start" not in [event.name for event in events]
    assert "Leave session_id out" in scribe.chat.messages(session_id)[-2]["content"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"agent": "nobody", "instruction": "x"}, "no agent named"),
        ({"agent": "scribe"}, "instruction"),
        ({"agent": "scribe", "instruction": 7}, "instruction"),
        ({"agent": "scribe", "instruction": "  "}, "is empty"),
        ({"agent": "scribe", "instruction": "x", "speed": 1}, "speed"),
    ],
)
def test_the_model_is_told_what_is_wrong_with_its_call(scribe, arguments, said):
    session_id = scribe.new_session()
    events = scribe.chat.say(session_id, scribe.message(arguments))
    assert events[-1].name == "done"
    assert events[-2].name == "message_complete"
    assert said in scribe.chat.messages(session_id)[-2]["content"]
    [told] = [event.data for event in events if event.name == "tool_result"]
    assert (told["tool_name"], told["success"], told["call_index"]) == ("agent", False, 0)
    assert told["error_code"] in {"AGENT_NOT_FOUND", "VALIDATION_ERROR"}
    assert said in told["error_message"]


def test_an_agent_that_is_busy_in_its_session_says_so_and_ends(scribe):
    session_id = scribe.new_session()
    events = scribe.chat.say(session_id, scribe.message(scribe.instruct(PLAN, "One.", "Two.")))
    agent_session = next(e.data["session_id"] for e in events if e.name == "agent_complete")
    both = [
        scribe.instruct(
            PLAN, calls(("ponder", {"seconds": 0.5})), "Done.", session_id=agent_session
        )
        for _ in range(2)
    ]
    events = scribe.chat.say(session_id, scribe.message(*both))
    ends = [e.data["output"] for e in events if e.name == "agent_complete"]
    assert len([e for e in events if e.name == "agent_start"]) == len(ends) == 2
    assert sum(output.startswith("Error: ") for output in ends) == 1
    assert not [e for e in events if e.name == "tool_result"]
    assert sorted(call["success"] for call in events[-2].data["tool_calls"]) == [False, True]


def test_a_question_of_an_agent_names_the_agents_call_and_its_own(scribe):
    session_id = scribe.new_session("always_confirm")
    call = scribe.instruct(PLAN, calls(("note", {"text": "milk"})), "Noted.")
    asked = {}
    with scribe.chat.stream(session_id, message=scribe.message(call)) as events:
        for event in events:
            if event.name == "tool_call_confirmation_required":
                asked = event.data
                [listed] = scribe.chat.http.get(f"/chat/{session_id}/confirmations").json()[
                    "confirmations"
                ]
                assert listed["tool_call_id"] == asked["inner_tool_call_id"]
                body = {"confirmation_id": asked["confirmation_id"], "approved": True}
                scribe.chat.http.post(f"/chat/{session_id}/confirm-tool", json=body)
            if event.name == "agent_tool_call":
                assert event.data["inner_tool_call_id"] == asked["inner_tool_call_id"]
                assert event.data["tool_call_id"] == asked["tool_call_id"]
    assert scribe.runs() == ["milk"]


def test_two_agents_of_one_round_run_at_the_same_time_and_tell_which_is_which(scribe):
    session_id = scribe.new_session()
    one, two = (
        scribe.instruct(PLAN, calls(("ponder", {"seconds": 0.5})), f"Done {n}.") for n in (1, 2)
    )
    events = scribe.chat.say(session_id, scribe.message(one, two))
    kinds = [(e.name, e.data.get("call_index")) for e in events]
    ends = [i for i, (name, _) in enumerate(kinds) if name == "agent_complete"]
    starts = [i for i, (name, _) in enumerate(kinds) if name == "agent_tool_call"]
    assert max(starts) < min(ends)
    for index in (0, 1):
        said = "".join(
            e.data["content"]
            for e in events
            if e.name == "agent_execution" and e.data["call_index"] == index
        )
        assert said.strip() == f"Done {index + 1}."
    sessions = {e.data["session_id"] for e in events if e.name == "agent_complete"}
    assert len(sessions) == 2
    results = [m for m in scribe.chat.messages(session_id) if m["role"] == "tool"]
    assert ["Done 1." in results[0]["content"], "Done 2." in results[1]["content"]] == [True, True]


def test_agents_of_one_round_do_not_undo_what_the_others_tools_wrote(scribe):
    session_id = scribe.new_session()
    acts = [calls(*(("rewrite", {"letter": letter}) for letter in word)) for word in ("abc", "xyz")]

    events = scribe.chat.say(
        session_id, scribe.message(*(scribe.instruct(PLAN, act, "Written.") for act in acts))
    )

    assert events[-1].name == "done"
    written = "".join(scribe.runs())
    assert sorted(written) == sorted("abcxyz")
    assert [c for c in written if c in "abc"] == [*"abc"]
    assert [c for c in written if c in "xyz"] == [*"xyz"]


def test_the_callers_policy_gates_the_agents_tools_and_the_question_names_the_agent(scribe):
    session_id = scribe.new_session("confirm_destructive")
    acts = calls(("note", {"text": "a"}), ("erase", {"text": "a"}))
    message = scribe.message(scribe.instruct(PLAN, acts, "Erased."))
    with scribe.chat.stream(session_id, message=message) as events:
        seen = []
        for event in events:
            seen.append(event)
            if event.name == "tool_call_confirmation_required":
                assert scribe.runs() == []
                body = {"confirmation_id": event.data["confirmation_id"], "approved": True}
                answer = scribe.server.chat().http.post(
                    f"/chat/{session_id}/confirm-tool", json=body
                )
                assert answer.status_code == 200, answer.text
    [question] = [e.data for e in seen if e.name == "tool_call_confirmation_required"]
    assert (question["agent_name"], question["tool_name"]) == ("scribe", "erase")
    assert sorted(scribe.runs()) == ["-a", "a"]
    called = [e.data["tool_name"] for e in seen if e.name == "agent_tool_call"]
    assert sorted(called) == ["erase", "note"]


def test_without_a_listener_the_agent_waits_and_goes_on_where_it_was(scribe):
    session_id = scribe.new_session("always_confirm")
    message = scribe.message(scribe.instruct(PLAN, calls(("note", {"text": "b"})), "Noted."))
    http = scribe.chat.http
    first = http.post(f"/chat/{session_id}", json={"message": message})
    assert first.status_code == 202, first.text
    [asked] = first.json()["pending_confirmations"]
    assert asked["agent_name"] == "scribe"
    listed = http.get(f"/chat/{session_id}/confirmations").json()["confirmations"]
    assert [c["confirmation_id"] for c in listed] == [asked["confirmation_id"]]
    body = {"confirmation_id": asked["confirmation_id"], "approved": True}
    assert http.post(f"/chat/{session_id}/confirm-tool", json=body).status_code == 200
    assert scribe.runs() == []
    second = http.post(f"/chat/{session_id}", json={})
    assert second.status_code == 200, second.text
    assert second.json()["message"]["content"] == "All done."
    assert scribe.runs() == ["b"]
    output = second.json()["tool_calls_executed"][0]["result"]
    assert output.count(PLAN) == 1
    assert output.endswith("Noted.")


def test_neither_an_agents_shell_nor_a_tool_nor_a_server_of_mcp_sees_the_keys(start, script):
    names = ("OPENAI_API_KEY", "GROQ_API_KEY", "MY_PROFILES_KEY", "MOCHI_API_TOKEN")
    server = start(
        **dict.fromkeys(names, "canary"),
        MISTRAL_API_KEY="let through",
        WEATHER_API_KEY="no key of ours",
        MOCHI_TOOL_ENVIRONMENT="MISTRAL_API_KEY",
    )
    sdk = {"command": sys.executable, "args": [str(SDK_SERVER)]}
    (server.data_dir / "mcp.json").write_text(json.dumps({"mcpServers": {"mcp": sdk}}))
    profile = {"provider": "openai", "model": "m", "api_key_env": "MY_PROFILES_KEY"}
    (server.data_dir / "profiles").mkdir()
    (server.data_dir / "profiles" / "mine.json").write_text(json.dumps(profile))
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "show.py").write_text(
        'import os\n__all__ = ["show"]\n'
        'def show() -> dict:\n    "Show the environment."\n    return dict(os.environ)\n'
    )
    scribe = Scribe(server, script)
    scribe.chat.http.headers["Authorization"] = "Bearer canary"
    scribe.chat.wait_for_tool("mcp__environment")
    session_id = scribe.chat.new_session(
        agent_settings={"enabled_agents": ["scribe"]},
        tool_settings={"tools": ["show", "mcp__environment"], "execution_policy": "never_confirm"},
    )
    shell = scribe.instruct(PLAN, calls(("shell", {"command": "env"})), "Done.")
    wanted = calls(("agent", shell), ("show", {}), ("mcp__environment", {}))

    events = scribe.chat.say(session_id, scribe.script(wanted, "Done.", per_request=True))

    results = [e.data for e in events if e.name in {"tool_result", "agent_tool_result"}]
    assert [each["error_message"] for each in results] == [None, None, None]
    [shell_saw] = [e.data["result"] for e in events if e.name == "agent_tool_result"]
    tool_saw, server_saw = (e.data["result"] for e in events if e.name == "tool_result")
    for seen in (shell_saw, tool_saw, server_saw):
        assert "PATH" in seen
        assert "canary" not in seen
    for seen in (shell_saw, tool_saw):
        assert "let through" in seen
        assert "no key of ours" in seen
    assert "let through" not in server_saw


def test_an_approval_for_the_session_is_for_the_agents_tool_and_for_the_rest_of_its_run(scribe):
    session_id = scribe.new_session("always_confirm")
    erasures = [calls(("erase", {"text": text})) for text in ("a", "b")]
    message = scribe.message(scribe.instruct("1. Erase.", *erasures, "Erased."))
    with scribe.chat.stream(session_id, message=message) as events:
        asked = next(e.data for e in events if e.name == "tool_call_confirmation_required")
        body = {"confirmation_id": asked["confirmation_id"], "approved": True}
        answer = scribe.chat.http.post(
            f"/chat/{session_id}/confirm-tool", json={**body, "remember": "session"}
        )
        assert answer.status_code == 200, answer.text
        rest = [event.name for event in events]
    assert "tool_call_confirmation_required" not in rest
    assert scribe.runs() == ["-a", "-b"]
    settings = scribe.chat.http.get(f"/sessions/{session_id}").json()["tool_settings"]
    assert settings["tool_policies"] == {"scribe.erase": "never_confirm"}


def test_an_agent_reads_on_in_a_long_result_of_its_own(scribe):
    text = "".join(f"{number}\n" for number in range(1, 20_001))
    result_id = hashlib.sha256(text.encode()).hexdigest()[:16]
    listing = calls(("shell", {"command": "seq 20000"}))
    reading = calls(("read_result", {"id": result_id, "from_line": 15_000, "lines": 1}))
    asked = scribe.instruct("1. Count.", listing, reading, "Counted.")

    events = scribe.chat.say(scribe.new_session(), scribe.message(asked))

    excerpt, read = [e.data["result"] for e in events if e.name == "agent_tool_result"]
    assert f'read_result {{"id": "{result_id}", "from_line": 1' in excerpt
    assert read == "15000\n[Lines 15,000 to 15,000 of 20,000.]"


def test_an_agent_with_many_tools_finds_those_that_it_needs(start, script):
    scribe = Scribe(start(MOCHI_TOOL_TOKENS="10"), script)
    session_id = scribe.new_session()
    finding = calls(("find_tools", {"query": "write a line down", "limit": 1}))
    steps = [finding, calls(("note", {"text": "milk"})), "Noted."]
    events = scribe.chat.say(session_id, scribe.message(scribe.instruct("1. Note it.", *steps)))
    results = [event.data["result"] for event in events if event.name == "agent_tool_result"]
    assert results == ["You can call these tools now:\n- note: Write a line down.", "noted milk"]
    assert scribe.runs() == ["milk"]
