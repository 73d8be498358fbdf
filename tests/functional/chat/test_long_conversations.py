"""Conversations that are longer than what their model can hold go on, and say what was left out."""

import pytest

WORDS = "All work and no play makes Jack a dull boy. " * 12
WINDOW = 1200


@pytest.fixture(scope="module")
def server(start_once):
    return start_once()


def talk(chat, session_id, turns, script):
    """Talk, and return the names of all events, and the windows that were asked for."""
    names, windows = [], []
    for number in range(turns):
        events = chat.say(session_id, script(f"Answer {number}. {WORDS}"))
        names += [(e.name, e.data.get("state")) for e in events]
        assert events[-2].name == "message_complete", events[-2]
        windows.append(events[-2].data["context_window"]["current_window"])
    return names, windows


def spoken(chat, session_id):
    return sum(len(message["content"]) for message in chat.messages(session_id)) / 4


@pytest.mark.parametrize("strategy", ["summarize_history", "truncate_by_tokens"])
def test_a_conversation_of_ten_windows_goes_on(chat, server, script, strategy):
    session_id = chat.new_session(system_prompt="Be brief.", context_strategy=strategy)
    answer = chat.http.patch(f"/sessions/{session_id}", json={"context_window": WINDOW})
    assert answer.status_code == 200, answer.text

    names, windows = talk(chat, session_id, 44, script)

    assert spoken(chat, session_id) > 10 * WINDOW
    assert len(chat.messages(session_id)) == 89
    assert set(windows) == {WINDOW}
    compressed = ("status", "compressing_context") in names
    assert compressed is (strategy == "summarize_history")
    state = server.session_file(session_id)["metadata"]["context_state"]
    assert bool(state["summary"]) is compressed

    context = chat.http.get(f"/sessions/{session_id}/context").json()
    assert context["estimate"]["tokens"] <= context["limit"] == WINDOW
    assert len(context["messages"]) + len(context["left_out"]) == 89
    assert context["messages"][0]["role"] == "system"
    assert abs(context["last_count"]["error"]) < 0.2
    told = {item["reason"] for item in context["left_out"]}
    assert told == {"summarized" if compressed else "truncated"}


@pytest.mark.parametrize("strategy", ["summarize_history", "truncate_by_tokens"])
def test_the_context_shows_which_messages_go_where_no_model_has_to_be_asked(
    chat, server, script, strategy
):
    session_id = chat.new_session(context_strategy="none")
    talk(chat, session_id, 5, script)
    url = f"/sessions/{session_id}"
    chat.http.patch(url, json={"context_window": WINDOW, "context_strategy": strategy})

    shown = chat.http.get(f"{url}/context").json()
    assert shown["will_compress"] is True
    assert len(shown["messages"]) + len(shown["left_out"]) == 10
    assert bool(shown["left_out"]) is (strategy != "summarize_history")
    assert "context_state" not in server.session_file(session_id)["metadata"]


def test_a_window_grows_in_coarse_steps(chat, script):
    session_id = chat.new_session()
    _, windows = talk(chat, session_id, 3, lambda text: script(text + "x" * 9000))

    assert windows == sorted(windows)
    assert set(windows) <= {8192, 16384, 32768, 36864}
    assert windows[-1] > 8192


def test_what_was_left_out_is_sent_again_when_the_strategy_changes(chat, script):
    session_id = chat.new_session(context_strategy="truncate_by_tokens")
    chat.http.patch(f"/sessions/{session_id}", json={"context_window": WINDOW})
    talk(chat, session_id, 8, script)
    assert chat.http.get(f"/sessions/{session_id}/context").json()["left_out"]

    chat.http.patch(
        f"/sessions/{session_id}", json={"context_strategy": "none", "context_window": None}
    )

    assert chat.http.get(f"/sessions/{session_id}/context").json()["left_out"] == []
    talk(chat, session_id, 1, script)
