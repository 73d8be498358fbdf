"""Clean answers, failing tools and refused requests; where providers differ, with each client."""

import json

import pytest

from tests.functional.chat.conftest import MODELS

# An inline block in pieces, end markers and control characters within and between the pieces.
DIRTY_TEXT = ["<th", "ink>w", "hy\x1b␄</thi", "nk>", "Gr␄", "\x00üße\r", "\n", "a <b> \x85", "c ␄"]
DIRTY_THINKING = ["Let␄ me", " \x07see", "<thin", "king>", " it ", "␄"]
UNCLEAN = [*"␄\x00\x07\x1b\x85\r", "<think", "</think"]
TOOLS = '''
"""Tools that fail, each in its way."""

import os
import time

__all__ = ["divide", "hang", "leave"]
__destructive__ = []


def divide(a: int, b: int) -> float:
    """Divide a by b."""
    return a / b


def hang() -> str:
    """Never answer."""
    time.sleep(600)
    return "late"


def leave() -> str:
    """End the process."""
    os._exit(3)
'''

every_provider = pytest.mark.parametrize("model", MODELS, ids=lambda name: name.partition(":")[0])


@pytest.fixture(scope="module")
def server(start_once, asked):
    server = start_once(MOCHI_TOOL_TIMEOUT_SECONDS="2", **asked.variables)
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "clumsy.py").write_text(TOOLS)
    return server


@pytest.fixture
def dirty(chat, script):
    """Return how to have a model say what is not clean; returns the events and what is saved."""

    def say(model):
        session_id = chat.new_session(model=model)
        says = {"text_message": {"text": DIRTY_TEXT, "reasoning": DIRTY_THINKING}}
        events = chat.say(session_id, script(says), think=True)
        return events, chat.messages(session_id)[-1]

    return say


def deltas(events, name):
    return [event.data["content"] for event in events if event.name == name]


def complete_of(events):
    assert [event.name for event in events][-2:] == ["message_complete", "done"]
    return events[-2].data


@every_provider
def test_no_piece_of_text_has_markers(dirty, model):
    events, _ = dirty(model)

    pieces = deltas(events, "content_delta")
    assert "".join(pieces) == "Grüße\na <b> c"
    assert len(pieces) > 2
    assert not any(bad in piece for piece in pieces for bad in UNCLEAN)


@every_provider
def test_no_piece_of_thinking_has_markers(dirty, model):
    events, _ = dirty(model)

    pieces = deltas(events, "thinking_delta")
    assert "".join(pieces) == "Let me see it why"
    assert len(pieces) > 2
    assert not any(bad in piece for piece in pieces for bad in UNCLEAN)


@every_provider
def test_the_final_text_is_clean_and_saved_so(dirty, model):
    events, saved = dirty(model)

    assert complete_of(events)["content"] == saved["content"] == "Grüße\na <b> c"


@every_provider
def test_the_final_thinking_is_clean_and_null_without_any(dirty, chat, script, model):
    events, saved = dirty(model)
    plain = complete_of(chat.say(chat.new_session(model=model), script("Hi␄")))

    assert complete_of(events)["thinking"] == saved["thinking"] == "Let me see it why"
    assert plain["content"] == "Hi"
    assert plain["thinking"] is None


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("divide", {"a": 1, "b": 0}, "TOOL_EXECUTION_FAILED"),
        ("divide", {"a": "one"}, "VALIDATION_ERROR"),
        ("leave", {}, "TOOL_EXECUTION_FAILED"),
        ("hang", {}, "SERVICE_UNAVAILABLE"),
        ("nope", {}, "TOOL_NOT_FOUND"),
    ],
)
def test_a_tool_that_fails_does_not_stop_the_stream(
    chat, script, calls, asked, tool, arguments, code
):
    session_id = chat.new_session(
        tool_settings={"tools": ["divide", "hang", "leave"], "execution_policy": "never_confirm"}
    )

    events = chat.say(session_id, script(calls((tool, arguments)), "Too bad.", per_request=True))

    (result,) = (event.data for event in events if event.name == "tool_result")
    assert (result["success"], result["error_code"]) == (False, code)
    assert complete_of(events)["content"] == "Too bad."
    # The model was told, in the words that are saved.
    told = asked.requests[-1]["messages"][-1]
    assert told["role"] == "tool"
    assert told["content"] == chat.messages(session_id)[-2]["content"]
    assert result["error_message"] in told["content"]


def test_a_tool_that_hangs_costs_its_time_and_no_more(chat, script, calls):
    session_id = chat.new_session(
        tool_settings={"tools": ["divide", "hang"], "execution_policy": "never_confirm"}
    )
    message = script(calls(("hang", {}), ("divide", {"a": 1, "b": 2})), "So.", per_request=True)

    events = chat.say(session_id, message)

    results = [event.data for event in events if event.name == "tool_result"]
    assert [(it["success"], it["call_index"]) for it in results] == [(False, 0), (True, 1)]
    assert complete_of(events)["content"] == "So."


@pytest.mark.parametrize("strategy", ["none", "truncate_by_tokens", "summarize_history"])
def test_the_context_strategy_decides_what_the_request_holds(chat, script, asked, strategy):
    session_id = chat.new_session(system_prompt="Be brief.", context_strategy=strategy)
    if strategy != "none":
        chat.http.patch(f"/sessions/{session_id}", json={"context_window": 1200})

    for number in range(8):
        chat.say(session_id, script(f"Answer {number}. {'word ' * 120}"))

    sent, kept = asked.requests[-1]["messages"], chat.messages(session_id)[:-1]
    assert sent[0]["content"].startswith("Be brief.")
    assert sent[-1]["content"] == kept[-1]["content"]
    assert (len(sent) == len(kept) == 16) is (strategy == "none")
    assert ("Answer 0" in json.dumps(sent)) is (strategy == "none")
    told = "Earlier parts of this conversation are left out" in json.dumps(sent)
    assert told is (strategy == "summarize_history")
    if strategy != "none":
        assert sum(len(message["content"]) for message in sent) / 4 < 1200


@pytest.mark.parametrize("message", ["", " ", "\n\t", "\u00a0"])
def test_a_message_without_text_is_a_validation_error(chat, script, message):
    session_id = chat.new_session()
    chat.say(session_id, script("kept"))
    before = chat.messages(session_id)

    for path in (f"/chat/{session_id}", f"/chat/{session_id}/stream"):
        answer = chat.http.post(path, json={"message": message})
        assert answer.status_code == 422
        assert answer.json()["error"]["code"] == "VALIDATION_ERROR"
        assert answer.json()["error"]["details"]["field"] == "message"

    assert chat.messages(session_id) == before


@pytest.mark.parametrize("path", ["", "/stream"])
def test_an_unknown_session_is_not_found_and_nothing_changes(chat, asked, path):
    before, requests = chat.http.get("/sessions").json(), len(asked.requests)

    answer = chat.http.post(f"/chat/0123456789{path}", json={"message": "Hello"})
    within = chat.http.post(
        f"/chat{path}", json={"session_id": "0123456789", "message": "Hello", "model": "qwen3:14b"}
    )

    for refused in (answer, within):
        assert refused.status_code == 404
        assert refused.json()["error"]["code"] == "SESSION_NOT_FOUND"
        assert refused.json()["error"]["details"]["session_id"] == "0123456789"
    assert chat.http.get("/sessions").json() == before
    assert len(asked.requests) == requests


def test_cancelling_what_is_complete_is_a_conflict_and_changes_nothing(chat, script):
    session_id = chat.new_session()
    events = chat.say(session_id, script("All of it."))
    before = chat.messages(session_id)

    answer = chat.cancel(session_id)

    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "NO_ACTIVE_TURN"
    assert chat.messages(session_id) == before
    assert "cancelled" not in before[-1]
    # Who picks the stream up again sees the same end.
    assert [event.data for event in chat.reattach(session_id)] == [event.data for event in events]
