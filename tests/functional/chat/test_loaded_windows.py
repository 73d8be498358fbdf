"""Sessions that share a model of Ollama have it loaded once, whatever their own windows are."""

import pytest

WORDS = "All work and no play makes Jack a dull boy. "
MODEL = "qwen3:14b"


@pytest.fixture(scope="module")
def server(start_once, asked):
    return start_once(**asked.variables)


def say(chat, session_id, text):
    events = chat.say(session_id, text)
    assert events[-2].name == "message_complete", events[-2]
    return events[-2].data["context_window"]


def test_two_sessions_in_turns_load_their_model_once(chat, asked, script):
    long, short = chat.new_session(model=MODEL), chat.new_session(model=MODEL)
    grown = say(chat, long, script("Fine.") + WORDS * 800)["current_window"]
    assert grown == 16384
    loads = asked.loads

    windows = [say(chat, session_id, script("Fine.")) for session_id in (short, long, short, long)]
    assert {window["current_window"] for window in windows} == {grown}
    assert windows[0]["reason"] == "loaded"
    chat.http.post(f"/sessions/{short}/summarize")
    assert asked.loads == loads

    status = chat.http.get(f"/sessions/{short}/status").json()["context_window"]
    assert (status["current_window"], status["last_adjustment_reason"]) == (grown, "loaded")
    assert chat.http.get(f"/sessions/{short}/context").json()["window"] == grown


def test_a_window_set_by_hand_is_loaded(chat, asked, script):
    session_id = chat.new_session(model=MODEL)
    chat.http.patch(f"/sessions/{session_id}", json={"context_window": 4096})
    loads = asked.loads
    assert say(chat, session_id, script("Fine."))["current_window"] == 4096
    assert asked.loads == loads + 1
