"""The main job over real sockets: sessions, messages, streams."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.functional.conftest import names_of, text_of


def test_conversations_without_attachments_have_nothing_made_for_them(chat, server, script):
    session_id = chat.new_session()
    chat.say(session_id, script("Paris."))
    chat.http.put(f"/sessions/{session_id}/messages/0", json={"content": "And Rome?"})
    chat.say(session_id)
    chat.http.post(f"/sessions/{session_id}/fork", json={}).raise_for_status()
    assert not (server.data_dir / "attachments").exists()


def test_a_conversation_is_streamed_and_stays_in_the_session_file(chat, server, script):
    session_id = chat.new_session(system_prompt="Be brief.")
    events = chat.say(session_id, script("Paris is the capital."))
    assert names_of(events)[0] == "turn_started"
    assert names_of(events)[-2:] == ["message_complete", "done"]
    assert text_of(events) == "Paris is the capital."
    turn_id = events[0].data["turn_id"]
    assert [event.id for event in events] == [
        f"{turn_id}:{number}" for number in range(1, len(events) + 1)
    ]
    complete = events[-2].data
    assert set(complete) == {
        *("message_id", "model", "eval_count", "prompt_eval_count", "context_window", "content"),
        *("thinking", "tool_calls", "turn_id", "done_reason", "usage", "turn_usage"),
    }
    saved = server.session_file(session_id)
    assert saved["metadata"]["format_version"] == "1.3"
    assert saved["metadata"]["message_count"] == 3
    assert saved["metadata"]["context_window_config"]["current_window"] == 8192
    assert [message["role"] for message in saved["messages"]] == ["system", "user", "assistant"]
    assert saved["messages"][2]["content"] == "Paris is the capital."
    assert saved["messages"][2]["message_id"] == complete["message_id"]


def test_an_answer_comes_whole_where_it_is_asked_whole(chat, script):
    session_id = chat.new_session()
    answer = chat.http.post(f"/chat/{session_id}", json={"message": script("Hi")})
    assert answer.status_code == 200
    reply = answer.json()
    fields = {"session_id", "message", "tool_calls_executed", "context_window", "cancelled"}
    assert set(reply) == {*fields, "turn_usage"}
    assert reply["cancelled"] is False
    assert reply["message"]["content"] == "Hi"
    assert reply["message"]["role"] == "assistant"
    assert reply["tool_calls_executed"] == []
    assert reply["context_window"]["reason"] == "initial_setup"
    assert reply["context_window"]["usage_tokens"] == (
        reply["message"]["eval_count"] + reply["message"]["prompt_eval_count"]
    )
    assert reply["turn_usage"] == reply["message"]["usage"]
    [asked, answered] = chat.messages(session_id)
    assert asked["turn_id"] == answered["turn_id"] == reply["message"]["turn_id"]
    known = {name: count for name, count in reply["turn_usage"].items() if count is not None}
    assert answered["usage"] == known


def test_a_session_is_made_on_the_fly(chat, script):
    answer = chat.http.post("/chat", json={"model": "qwen3:14b", "message": script("Hi")}).json()
    assert answer["response"] == "Hi"
    assert answer["model"] == "qwen3:14b"
    assert answer["metadata"] == {"batch_mode": True}
    assert len(chat.messages(answer["session_id"])) == 2
    follow_up = {"session_id": answer["session_id"], "message": script("Again")}
    with chat.http.stream("POST", "/chat/stream", json=follow_up) as stream:
        assert stream.status_code == 200
        assert "Again" in stream.read().decode()
    assert len(chat.messages(answer["session_id"])) == 4


def test_the_stream_has_the_headers_that_keep_it_a_stream(chat):
    session_id = chat.new_session()
    with chat.http.stream("POST", f"/chat/{session_id}/stream", json={"message": "x"}) as answer:
        headers = answer.headers
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["cache-control"] == "no-cache, no-transform"
        assert headers["x-accel-buffering"] == "no"
        assert headers["x-content-type-options"] == "nosniff"
        assert "content-length" not in headers
        assert answer.read().startswith(b"retry: 2000\nid: ")


def test_thinking_comes_apart_and_first(chat, server, script):
    session_id = chat.new_session()
    message = script("42", reasoning={"length": 8})
    events = chat.say(session_id, message, think=True)
    names = names_of(events)
    assert names.index("thinking_delta") < names.index("content_delta")
    complete = events[-2].data
    assert complete["content"] == "42"
    assert len(complete["thinking"].split()) == 8
    assert server.session_file(session_id)["messages"][1]["thinking"] == complete["thinking"]


def test_an_edited_message_is_answered_again(chat, script):
    session_id = chat.new_session()
    chat.say(session_id, script("first"))
    chat.say(session_id, script("second"))
    edit = chat.http.put(
        f"/sessions/{session_id}/messages/0", json={"content": script("other first")}
    )
    assert edit.status_code == 200
    assert edit.json()["removed"] == 3
    assert text_of(chat.say(session_id)) == "other first"
    assert len(chat.messages(session_id)) == 2


def test_regenerating_replaces_the_answer(chat, script):
    session_id = chat.new_session()
    first = chat.say(session_id, script("same"))[-2].data["message_id"]
    second = chat.say(session_id)[-2].data["message_id"]
    assert first != second
    assert [message["message_id"] for message in chat.messages(session_id)][1] == second
    path = f"/sessions/{session_id}/messages/1/variant"
    chosen = chat.http.put(path, json={"message_id": first})
    assert chosen.status_code == 200
    assert chosen.json()["messages"] == chat.messages(session_id)[1:]
    assert chat.messages(session_id)[1]["message_id"] == first
    empty = chat.http.post(f"/chat/{session_id}/stream")
    assert empty.status_code == 200
    assert len(chat.messages(session_id)) == 2


@pytest.mark.parametrize("fault", [{"drop_after": 2}, {"malformed": 2}, {"error_line": 2}])
def test_an_error_in_mid_answer_ends_the_stream_and_keeps_the_text(chat, script, fault):
    session_id = chat.new_session()
    events = chat.say(session_id, script(["one ", "two ", "three ", "four"], **fault))
    assert names_of(events)[-2:] == ["error", "done"]
    assert events[-2].data["code"] == "OLLAMA_ERROR"
    last = chat.messages(session_id)[-1]
    assert last["interrupted"] is True
    assert last["content"] == "one two"
    # The session is usable, and a retry replaces the broken answer.
    chat.http.put(f"/sessions/{session_id}/messages/0", json={"content": script("whole")})
    assert text_of(chat.say(session_id)) == "whole"


def test_cancel_ends_the_stream_and_tells_what_there_was(chat, script):
    session_id = chat.new_session()
    message = script(["The capital", " of"], stall_after=1, stall_seconds=30)
    with ThreadPoolExecutor() as pool, chat.stream(session_id, message=message) as events:
        first = [next(events), next(events)]
        reply = pool.submit(chat.cancel, session_id).result(timeout=30)
        rest = list(events)
    assert reply.json() == {
        "turn_id": first[0].data["turn_id"],
        "cancelled": True,
        "partial_content": "The capital",
        "stopped": {"upstream": True, "tools": [], "agents": []},
    }
    assert names_of(rest) == ["cancelled", "done"]
    last = chat.messages(session_id)[-1]
    assert last["content"] == "The capital\n\n[cancelled]"
    assert last["cancelled"] is True
    again = chat.cancel(session_id)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "NO_ACTIVE_TURN")


def test_a_client_that_leaves_stops_the_model_and_the_partial_answer_is_saved(chat, script):
    session_id = chat.new_session()
    message = script(["partial", "never"], stall_after=1, stall_seconds=30)
    with chat.stream(session_id, message=message) as events:
        assert next(events).name == "turn_started"
        assert next(events).data["content"] == "partial"
    deadline = time.monotonic() + 30
    while chat.http.get(f"/sessions/{session_id}/status").json()["active_turn"]:
        assert time.monotonic() < deadline
    assert chat.messages(session_id)[-1]["content"] == "partial\n\n[cancelled]"


def test_tokens_arrive_as_they_are_made(chat, script):
    session_id = chat.new_session()
    message = script(["a ", "b ", "c "], stall_after=2, stall_seconds=600)
    with chat.stream(session_id, message=message) as events:
        # The third is not made as long as we wait.
        assert [next(events).data.get("content") for _ in range(3)] == [None, "a", " b"]


def test_tool_calls_of_unknown_tools_are_told_to_the_model(chat, script):
    session_id = chat.new_session()
    message = script(
        {"tool_call": [{"name": "nope", "args": {"x": [1, {"y": None}]}}]},
        "Then not.",
        per_request=True,
    )
    events = chat.say(session_id, message)
    assert names_of(events) == [
        *("turn_started", "tool_call", "tool_result", "tool_continuation_start"),
        *("content_delta",) * names_of(events).count("content_delta"),
        *("message_complete", "done"),
    ]
    call, result = events[1].data, events[2].data
    assert call["arguments"] == {"x": [1, {"y": None}]}
    assert result["tool_call_id"] == call["tool_call_id"]
    assert result["error_code"] == "TOOL_NOT_FOUND"
    roles = [message["role"] for message in chat.messages(session_id)]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert text_of(events) == "Then not."


def test_models_cannot_forge_events(chat, script):
    nasty = "a\n\nevent: done\ndata: {}\r\n\r\n\u2028\u2029\x85é😀"
    events = chat.say(chat.new_session(), script(nasty))
    assert names_of(events).count("done") == 1
    assert text_of(events) == nasty.replace("\r", "").replace("\x85", "")


def test_many_sessions_talk_at_once(chat, script):
    sessions = [chat.new_session() for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        texts = list(
            pool.map(
                lambda pair: text_of(chat.say(pair[1], script(f"answer {pair[0]}"))),
                enumerate(sessions),
            )
        )
    assert texts == [f"answer {number}" for number in range(20)]


def test_a_restart_loses_nothing(start, script):
    first = start(MOCHI_SHUTDOWN_GRACE_SECONDS="600")
    chat = first.chat()
    session_id = chat.new_session()
    chat.say(session_id, script("remember me"))
    first.stop()
    chat = start().chat()
    assert chat.messages(session_id)[1]["content"] == "remember me"
    assert text_of(chat.say(session_id, script("still here"))) == "still here"


def test_two_workers_answer_the_same_as_one(start, script):
    server = start("--workers", "2")
    assert len(server.web_processes) == 2
    clients = [server.chat() for _ in range(6)]
    session_id = clients[0].new_session()
    for number, chat in enumerate(clients):
        assert text_of(chat.say(session_id, script(f"answer {number}"))) == f"answer {number}"
    assert all(len(chat.messages(session_id)) == 12 for chat in clients)


def test_the_session_file_can_be_read_by_what_knows_format_1_3(chat, server, script):
    session_id = chat.new_session()
    chat.say(session_id, script("Hi"))
    saved = json.loads(json.dumps(server.session_file(session_id)))
    metadata_keys = {
        *("session_id", "model", "created_at", "updated_at", "message_count", "summary"),
        *("summary_model", "format_version", "tool_settings", "agent_settings"),
        "context_window_config",
    }
    assert metadata_keys <= set(saved["metadata"])
    assert set(saved["metadata"]["context_window_config"]) >= {
        *("dynamic_enabled", "current_window", "last_adjustment", "adjustment_history"),
        "manual_override",
    }
    user, assistant = saved["messages"]
    assert {"role", "content", "message_id", "timestamp"} <= set(user)
    assert {"model", "eval_count", "prompt_eval_count"} <= set(assistant)


def test_the_status_has_every_field_of_the_specification(chat, script):
    session_id = chat.new_session(
        system_prompt="Be brief.",
        system_prompt_source_file="brief.md",
        tool_settings={"tools": ["add_numbers"], "execution_policy": "never_confirm"},
        summary_model="qwen3:14b",
    )
    chat.say(session_id, script("Hello."))

    status = chat.http.get(f"/sessions/{session_id}/status").json()

    usage = status.pop("usage")
    assert usage["input_tokens"] > 0 < usage["output_tokens"]
    assert (usage["cost_usd"], usage["cost_known"]) == ("0", True)
    assert status == {
        "session_id": session_id,
        "model": "qwen3:14b",
        "message_count": 3,
        "context_window": {
            "dynamic_enabled": True,
            "current_window": 8192,
            "model_max_context": 40960,
            "last_adjustment_reason": "initial_setup",
            "manual_override": False,
        },
        "tools_enabled": True,
        "active_tools": [],  # a tool of this name is not there, so none is offered
        "execution_policy": "never_confirm",
        "agents_enabled": False,
        "enabled_agents": [],
        "system_prompt_file": "brief.md",
        "summary": None,
        "summary_model": "qwen3:14b",
        "active_turn": None,
        "inbox": {"count": 0, "paused": None},
    }


def test_a_session_keeps_what_it_enables_although_it_is_not_there_yet(chat, script):
    """The example of the specification, in an empty folder; a turn goes on without them."""
    body = {
        "model": "qwen3:14b",
        "system_prompt": "You are a helpful assistant.",
        "system_prompt_source_file": "helpful.md",
        "tool_settings": {
            "tools": ["add_numbers", "get_current_time"],
            "tool_group": None,
            "execution_policy": "always_confirm",
        },
        "agent_settings": {"enabled_agents": ["coder"]},
    }
    answer = chat.http.post("/sessions", json=body)
    assert answer.status_code == 201
    made = answer.json()
    assert made["warnings"] == [
        "no agent is called `coder`",
        "no tool is called `add_numbers`",
        "no tool is called `get_current_time`",
    ]
    assert made["agent_settings"]["enabled_agents"] == ["coder"]
    assert chat.say(made["session_id"], script("Hello"))[-1].name == "done"
    strict = {"message": "Hello", "selected_tools": ["add_numbers"]}
    refused = chat.http.post(f"/chat/{made['session_id']}", json=strict)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "TOOL_NOT_FOUND")
