"""Turns from the message to the saved answer; where providers differ, with the client of each."""

import json
import sys
from pathlib import Path

import pytest

from tests.functional.chat.conftest import MODELS
from tests.functional.conftest import names_of, text_of

MCP_SERVER = Path(__file__).parents[2] / "unit" / "tools_app" / "mcp" / "programs" / "sdk_server.py"
TOOLS = '''
"""Tools that can be counted, and one that fails the first time."""

from pathlib import Path

__all__ = ["count", "flaky"]
__destructive__ = []

RUNS = Path(__file__).with_name("runs.txt")


def count(word: str) -> str:
    """Count a word's letters."""
    return f"{word} has {len(word)}"


def flaky(number: int) -> str:
    """Work the second time."""
    runs = RUNS.read_text() if RUNS.exists() else ""
    RUNS.write_text(f"{runs}{number}\\n")
    if number == 1:
        raise RuntimeError("the line is busy, try number 2")
    return f"connected to {number}"
'''

every_provider = pytest.mark.parametrize("model", MODELS, ids=lambda name: name.partition(":")[0])


@pytest.fixture(scope="module")
def server(start_once, asked):
    server = start_once(**asked.variables)
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "phone.py").write_text(TOOLS)
    servers = {"sums": {"command": sys.executable, "args": [str(MCP_SERVER)]}}
    (server.data_dir / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return server


@pytest.fixture
def saved(server):
    """Return how to read the messages that are in a session's file now."""
    return lambda session_id: server.session_file(session_id)["messages"]


@pytest.fixture
def stalled(chat, script):
    """Return how to open a stream that stays silent after some pieces."""

    def open_stream(session_id, says, after, **body):
        message = script(says, stall_seconds=60, stall_after=after)
        return chat.stream(session_id, message=message, detached=True, **body)

    return open_stream


def with_tools(chat, *tools, **more):
    settings = {"tools": list(tools), "execution_policy": "never_confirm"}
    return chat.new_session(tool_settings=settings, **more)


def until(events, name, count=1):
    """Read up to the given one of the events of a name, and return it."""
    for event in events:
        count -= event.name == name
        if not count:
            return event
    raise AssertionError(f"there was no {name}")


def test_sending_a_message_gives_a_handle_on_its_stream(chat, stalled):
    session_id = chat.new_session()

    with stalled(session_id, ["one ", "two"], after=1) as events:
        started = next(events)
        turn_id = started.data["turn_id"]
        until(events, "content_delta")
        status = chat.http.get(f"/sessions/{session_id}/status").json()
        cancelled = chat.cancel(session_id).json()

    assert status["active_turn"]["turn_id"] == turn_id  # is_streaming
    assert cancelled["turn_id"] == turn_id  # cancel
    assert chat.http.get(f"/sessions/{session_id}/status").json()["active_turn"] is None
    # And what is left of it can be had from any event on.
    assert names_of(chat.reattach(session_id, started.id)) == ["content_delta", "cancelled", "done"]


@every_provider
def test_the_stream_starts_with_started_and_the_model(chat, script, model):
    session_id = chat.new_session(model=model)

    events = chat.say(session_id, script("Hi"))

    assert names_of(events).index("turn_started") == 0
    assert names_of(events).count("turn_started") == 1
    assert events[0].data == {
        "turn_id": events[-2].data["turn_id"],
        "session_id": session_id,
        "model": model,
        "message_id": events[-2].data["message_id"],
        "user_message_id": chat.messages(session_id)[0]["message_id"],
        "user_message_index": 0,
    }


def test_even_a_call_without_text_comes_after_it(chat, script, calls):
    session_id = with_tools(chat, "count")

    events = chat.say(session_id, script(calls(("count", {"word": "a"})), "1", per_request=True))

    assert names_of(events)[:2] == ["turn_started", "tool_call"]


# Each character is a piece of its own: whatever is taken out was cut before.
@every_provider
def test_text_is_clean_wherever_it_was_cut(chat, script, model):
    raw = "\x1b[1mWhy</think> <i>not␄?</i>\x00 <thinking>hidden</thinking>Yes.\x9d␄"

    events = chat.say(chat.new_session(model=model), script({"text_message": {"text": list(raw)}}))

    assert text_of(events) == "[1mWhy <i>not?</i> Yes."
    assert text_of(events, "thinking_delta") == "hidden"


@every_provider
def test_thinking_is_clean_wherever_it_was_cut(chat, script, model):
    raw = "<think>Is it␄ so?\x1b</think>\nIt is.\x00␄"
    says = {"text_message": {"text": "So it is.", "reasoning": list(raw)}}

    events = chat.say(chat.new_session(model=model), script(says), think=True)

    assert text_of(events, "thinking_delta") == "Is it so?\nIt is."
    assert text_of(events) == "So it is."


@every_provider
def test_cancel_sends_what_there_was_of_text_and_thinking(chat, stalled, model):
    session_id = chat.new_session(model=model)
    says = {"text_message": {"text": ["So␄ ", "it ", "is"], "reasoning": ["I ", "see␄"]}}

    with stalled(session_id, says, after=4, think=True) as events:
        until(events, "content_delta", 2)
        reply = chat.cancel(session_id).json()
        rest = list(events)

    assert names_of(rest) == ["cancelled", "done"]
    message_id = chat.messages(session_id)[-1]["message_id"]
    usage = rest[0].data.pop("turn_usage")
    assert usage["first_token_ms"] <= usage["total_ms"]
    assert rest[0].data == {
        "content": "So it",
        "thinking": "I see",
        "model": model,
        "message_id": message_id,
    }
    assert reply["partial_content"] == "So it"


@pytest.mark.parametrize(
    ("text", "after", "content"),
    [(["The capital", " of"], 2, "The capital\n\n[cancelled]"), (["never"], 1, "[cancelled]")],
    ids=["with text", "before any"],
)
def test_a_cancelled_message_is_saved_with_its_marker(
    chat, stalled, saved, asked, script, text, after, content
):
    session_id = chat.new_session()
    says = {"text_message": {"text": text, "reasoning": ["Hm."]}}

    with stalled(session_id, says, after=after, think=True) as events:
        until(events, "content_delta" if after == 2 else "thinking_delta")
        assert chat.cancel(session_id).status_code == 200
        list(events)

    last = saved(session_id)[-1]
    assert (last["role"], last["content"], last["cancelled"]) == ("assistant", content, True)
    assert last["thinking"] == "Hm."
    # The marker is for people: no model is sent it.
    chat.say(session_id, script("And on."))
    assert "[cancelled]" not in json.dumps(asked.requests[-1])


@every_provider
def test_a_model_that_is_told_of_a_tools_error_may_try_again(
    chat, script, calls, server, asked, model
):
    session_id = with_tools(chat, "flaky", model=model)
    runs = server.data_dir / "tools" / "runs.txt"
    runs.unlink(missing_ok=True)
    tries = [calls(("flaky", {"number": number})) for number in ("first", 1, 2)]

    events = chat.say(session_id, script(*tries, "Connected.", per_request=True))

    results = [event.data for event in events if event.name == "tool_result"]
    assert [(it["call_index"], it["success"]) for it in results] == [
        (0, False),
        (1, False),
        (2, True),
    ]
    assert events[-2].data["content"] == "Connected."
    # Nothing is run again by itself, nor at all with arguments that do not fit.
    assert runs.read_text() == "1\n2\n"
    last_request = json.dumps(asked.requests[-1])
    assert "the line is busy, try number 2" in last_request
    assert "connected to 2" in last_request


def test_the_users_message_is_saved_before_the_stream_begins(chat, stalled, saved):
    session_id = chat.new_session()

    with stalled(session_id, ["one"], after=1) as events:
        assert next(events).name == "turn_started"
        (message,) = saved(session_id)
        until(events, "content_delta")
        assert saved(session_id) == [message]
        chat.cancel(session_id)

    assert message["role"] == "user"
    assert "one" in message["content"]


@every_provider
def test_the_answer_is_saved_when_the_stream_says_complete(chat, script, saved, model):
    session_id = chat.new_session(model=model)

    with chat.stream(session_id, message=script("All of it.")) as events:
        complete = until(events, "message_complete").data
        message = saved(session_id)[-1]
        assert next(events).name == "done"

    assert message["role"] == "assistant"
    assert (message["content"], message["model"]) == ("All of it.", model)
    assert message["message_id"] == complete["message_id"]


def test_a_history_processor_is_applied_to_what_is_sent(chat, script, calls, asked):
    session_id = with_tools(chat, "count", context_strategy="filter_history+truncate_by_tokens")
    chat.http.patch(f"/sessions/{session_id}", json={"context_window": 2000})
    chat.say(session_id, script(calls(("count", {"word": "kiwi"})), "Four.", per_request=True))
    assert "kiwi" in json.dumps(asked.requests[-1])

    for number in range(6):
        chat.say(session_id, script(f"Answer {number}. {'word ' * 200}"))

    sent, kept = json.dumps(asked.requests[-1]["messages"]), chat.messages(session_id)
    assert "kiwi" not in sent
    assert "Answer 0" not in sent
    assert "Answer 5" in sent
    # What is sent is a choice; the file keeps everything.
    assert len(kept) == 16
    assert kept[1]["tool_calls"]


@pytest.mark.parametrize("model", [MODELS[0], MODELS[1]], ids=["ollama", "anthropic"])
def test_tools_of_mcp_servers_are_attached(chat, script, calls, asked, model):
    chat.wait_for_tool("sums__add")
    session_id = with_tools(chat, "sums__add", model=model)
    message = script(calls(("sums__add", {"a": 20, "b": 22})), "42.", per_request=True)

    events = chat.say(session_id, message)

    (result,) = (event.data for event in events if event.name == "tool_result")
    assert (result["success"], result["server"]) == (True, "sums")
    assert "42" in result["result"]
    offered = json.dumps(asked.requests[-1]["tools"])
    assert "sums__add" in offered
    assert "Add two numbers." in offered
    assert "sums__environment" not in offered


@every_provider
def test_one_turn_goes_on_through_several_rounds_of_tools(chat, script, calls, asked, model):
    session_id = with_tools(chat, "count", model=model)
    rounds = [[("count", {"word": "a"}), ("count", {"word": "bb"})], [("count", {"word": "ccc"})]]
    message = script(*(calls(*wanted) for wanted in rounds), "1, 2, 3.", per_request=True)

    events = chat.say(session_id, message)

    results = [event.data for event in events if event.name == "tool_result"]
    assert [(it["call_index"], it["result"]) for it in results] == [
        (0, "a has 1"),
        (1, "bb has 2"),
        (2, "ccc has 3"),
    ]
    assert names_of(events).count("tool_continuation_start") == 2
    assert names_of(events)[-2:] == ["message_complete", "done"]
    assert events[-2].data["content"] == "1, 2, 3."
    assert [call["call_index"] for call in events[-2].data["tool_calls"]] == [0, 1, 2]
    roles = [message["role"] for message in chat.messages(session_id)]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
    # Each round is sent what the ones before found out.
    sent = [json.dumps(request) for request in asked.requests[-3:]]
    assert ["bb has 2" in request for request in sent] == [False, True, True]
    assert ["ccc has 3" in request for request in sent] == [False, False, True]


@every_provider
def test_the_context_limit_of_a_profile_holds(chat, script, asked, model):
    provider, _, name = (model if model != "qwen3:14b" else f"ollama:{model}").partition(":")
    named = f"short-{model.replace('/', '-').replace(':', '-')}"
    profile = {"provider": provider, "model": name, "parameters": {"context_limit": 1000}}
    made = chat.http.post("/profiles", json={"name": named, **profile})
    assert made.status_code == 201, made.text
    session_id = chat.new_session(model=f"profile:{named}", context_strategy="truncate_by_tokens")

    for number in range(6):
        chat.say(session_id, script(f"Answer {number}. {'word ' * 120}"))

    sent = json.dumps(asked.requests[-1])
    assert "Answer 0" not in sent
    assert "Answer 5" in sent
    assert len(sent) / 4 < 1200
    context = chat.http.get(f"/sessions/{session_id}/context").json()
    assert context["limit"] == 1000
    assert context["left_out"]
    assert len(chat.messages(session_id)) == 12
