"""Agents that are cancelled, fail, go on for ever or die."""

import threading
import time

import psutil

from tests.functional.agents.conftest import Scribe, calls

PLAN = "1. Note it."


def test_cancel_reaches_into_the_agents_tools_and_saves_both_sessions(scribe):
    session_id = scribe.new_session()
    message = scribe.message(scribe.instruct(PLAN, calls(("ponder", {"seconds": 60})), "Never."))
    reader = threading.Thread(target=scribe.chat.say, args=(session_id, message))
    reader.start()
    deadline = time.monotonic() + 60
    while not scribe.runs():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    [pid] = map(int, scribe.runs())
    answer = scribe.server.chat().cancel(session_id)
    reader.join(timeout=60)
    assert answer.status_code == 200, answer.text
    stopped = answer.json()["stopped"]
    assert (stopped["agents"], stopped["tools"]) == (["scribe"], ["ponder"])
    assert not psutil.pid_exists(pid)
    kept = scribe.chat.messages(session_id)
    assert (kept[-1]["content"], kept[-2]["role"]) == ("[cancelled]", "tool")
    chats = scribe.chat.http.get("/agents/chats").json()["chats"]
    newest = max(chats, key=lambda chat: chat["updated_at"])
    inside = scribe.agent_chat(newest["session_id"])["messages"]
    assert [m["role"] for m in inside][-3:] == ["assistant", "tool", "assistant"]
    assert inside[-1]["content"] == "[cancelled]"
    again = scribe.chat.say(session_id, scribe.script("Fine."))
    assert again[-1].name == "done"


def test_a_failing_model_of_an_agent_is_told_to_the_main_model(scribe):
    session_id = scribe.new_session()
    call = {"agent": "scribe", "instruction": scribe.script("x", drop_after=1)}
    events = scribe.chat.say(session_id, scribe.message(call))
    complete = next(e.data for e in events if e.name == "agent_complete")
    assert "[The agent stopped:" in complete["output"]
    assert events[-2].name == "message_complete"


def test_an_agent_that_goes_on_for_ever_is_stopped_at_its_limit(start, script):
    server = start(MOCHI_MAX_AGENT_ITERATIONS="3")
    scribe = Scribe(server, script)
    session_id = scribe.new_session()
    steps = [calls(("note", {"text": str(n)})) for n in range(9)]
    events = scribe.chat.say(session_id, scribe.message(scribe.instruct(PLAN, *steps)))
    complete = next(e.data for e in events if e.name == "agent_complete")
    assert "that is the limit" in complete["output"]
    assert scribe.runs() == ["0", "1"]
    assert events[-2].name == "message_complete"


def test_an_agent_that_repeats_a_call_is_stopped_and_its_caller_goes_on(scribe):
    session_id = scribe.new_session()
    steps = [calls(("note", {"text": "milk"}))] * 9
    events = scribe.chat.say(session_id, scribe.message(scribe.instruct(PLAN, *steps)))
    complete = next(e.data for e in events if e.name == "agent_complete")
    assert "called the tool 'note' 6 times" in complete["output"]
    assert scribe.runs() == ["milk"] * 5
    assert events[-2].name == "message_complete"


def test_a_crash_in_the_middle_leaves_both_sessions_usable(start, script):
    server = start()
    scribe = Scribe(server, script)
    session_id = scribe.new_session()
    message = scribe.message(scribe.instruct(PLAN, calls(("ponder", {"seconds": 60})), "Never."))
    with scribe.chat.stream(session_id, message=message, detached=True) as events:
        for event in events:
            if event.name == "agent_tool_call":
                agent_call = event.data
                break
    deadline = time.monotonic() + 60
    while not scribe.runs():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    server.kill()
    found = start()
    after = Scribe.__new__(Scribe)
    after.__dict__.update(scribe.__dict__, server=found, chat=found.chat())
    kept = after.chat.messages(session_id)
    assert kept[-1]["role"] == "tool"
    assert "interrupted" in kept[-1]["content"]
    [agent_chat] = after.chat.http.get("/agents/chats").json()["chats"]
    assert agent_call["agent_name"] == agent_chat["agent_name"]
    goes_on = after.message(
        after.instruct("2.", "Yes.", "Yes!", session_id=agent_chat["session_id"])
    )
    events = after.chat.say(session_id, goes_on)
    assert "agent_complete" in [event.name for event in events]
