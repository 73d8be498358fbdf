"""A server that is stopped lets go of turns that the next process goes on with."""

import json
import signal
import textwrap
import threading

import pytest

from tests.functional.conftest import names_of, read_events, text_of

CONTINUES = {"MOCHI_ON_CRASH": "continue", "MOCHI_SHUTDOWN_GRACE_SECONDS": "0"}
LONG_GRACE = {**CONTINUES, "MOCHI_SHUTDOWN_GRACE_SECONDS": "600"}
TOOLS = """
import pathlib, time

__all__ = ["look", "store"]
__destructive__ = ["store"]
FOLDER = pathlib.Path(__file__).parent.parent

def _run(name: str) -> str:
    runs = FOLDER / name
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    if len(runs.read_text()) == 1:
        time.sleep(600)
    return name

def look() -> str:
    \"\"\"Look.\"\"\"
    return _run("look")

def store() -> str:
    \"\"\"Store.\"\"\"
    return _run("store")
"""


def half_an_answer(upstream):
    """Have the model stop in the middle, and say the rest when it is asked again."""

    def behave(answer):
        if answer.messages[-1]["role"] == "assistant":  # it goes on with that
            answer.say(" answer.")
            answer.finish()
        else:
            answer.say("Half", " an")
            answer.wait_until_closed()

    upstream.behave = behave


def calls_then_answer(upstream, name):
    """Have the model call a tool, and answer once it has the result."""

    def behave(answer):
        if answer.messages[-1]["role"] == "tool":
            answer.say("Done.")
            answer.finish()
            return
        call = {"function": {"name": name, "arguments": {}}}
        message = {"role": "assistant", "content": "", "tool_calls": [call]}
        line = {"model": "m", "message": message, "done": False}
        answer.chunk(json.dumps(line).encode() + b"\n")
        answer.finish()

    upstream.behave = behave


def begin(chat, *, until, **settings):
    """Start a detached turn, read its stream until an event, and return what was read."""
    session_id = chat.new_session(**settings)
    seen = []
    stream = chat.stream(session_id, message="Hello!", detached=True)
    events = stream.__enter__()
    for event in events:
        seen.append(event)
        if until(event):
            break
    return session_id, seen, events, stream


def check_end(events, stream):
    """Return the rest of a stream that broke off without an end."""
    rest = list(events)
    stream.__exit__(None, None, None)
    assert not {"error", "cancelled", "done"} & set(names_of(rest))
    return rest


def numbers_of(events):
    return [int(event.id.partition(":")[2]) for event in events]


def follow(chat, session_id, last):
    """Read the rest of a turn's stream, attaching again where it breaks off."""
    return chat.reattach(session_id, last.id)


def test_a_turn_that_is_stopped_while_it_streams_goes_on_after_the_start(start, upstream):
    half_an_answer(upstream)
    server = start(MOCHI_OLLAMA_HOST=upstream.url, **CONTINUES)
    session_id, seen, events, stream = begin(
        server.chat(), until=lambda event: event.data.get("content") == " an"
    )
    server.stop()
    seen += check_end(events, stream)
    assert server.session_file(session_id)["messages"][-1]["role"] == "user"
    assert "interrupted" not in server.log.read_text()
    chat = start(MOCHI_OLLAMA_HOST=upstream.url, **CONTINUES).chat()
    rest = follow(chat, session_id, seen[-1])
    assert numbers_of([*seen, *rest]) == list(range(1, len(seen) + len(rest) + 1))
    assert names_of(rest) == ["turn_resumed", "content_delta", "message_complete", "done"]
    assert (rest[0].data["reason"], rest[0].data["keeps"]) == ("server_stopped", "text")
    assert text_of([*seen, *rest]) == rest[-2].data["content"] == "Half an answer."
    assert [m["content"] for m in chat.messages(session_id)] == ["Hello!", "Half an answer."]
    assert not any(m.get("interrupted") for m in chat.messages(session_id))


def test_a_turn_goes_on_at_the_start_though_nobody_listens(start, upstream, eventually):
    half_an_answer(upstream)
    server = start(MOCHI_OLLAMA_HOST=upstream.url, **CONTINUES)
    session_id, _, events, stream = begin(
        server.chat(), until=lambda event: event.data.get("content") == " an"
    )
    server.stop()
    check_end(events, stream)
    server = start(MOCHI_OLLAMA_HOST=upstream.url, **CONTINUES)
    eventually(lambda: server.session_file(session_id)["messages"][-1]["role"] == "assistant")
    assert server.session_file(session_id)["messages"][-1]["content"] == "Half an answer."


def test_a_turn_that_waits_for_an_approval_is_let_go_at_once_and_asks_the_same(start, upstream):
    calls_then_answer(upstream, "store")
    server = start(MOCHI_OLLAMA_HOST=upstream.url, **LONG_GRACE)
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "slow.py").write_text(textwrap.dedent(TOOLS))
    (server.data_dir / "store").write_text("")  # it does not wait in its first run
    session_id, seen, events, stream = begin(
        server.chat(),
        until=lambda event: event.name == "tool_call_confirmation_required",
        tool_settings={"tools": ["store"], "execution_policy": "always_confirm"},
    )
    question = seen[-1].data["confirmation_id"]
    server.stop()  # long before the grace time is over
    seen += check_end(events, stream)
    server = start(MOCHI_OLLAMA_HOST=upstream.url, **LONG_GRACE)
    chat = server.chat()
    with chat.http.stream(
        "GET", f"/chat/{session_id}/stream", params={"after": seen[-1].id}
    ) as answer:
        rest = []
        for event in read_events(answer):
            rest.append(event)
            if event.name == "tool_call_confirmation_required":
                assert event.data["confirmation_id"] == question
                given = {"confirmation_id": question, "approved": True}
                chat.http.post(f"/chat/{session_id}/confirm-tool", json=given).raise_for_status()
    assert (server.data_dir / "store").read_text() == "x"
    assert text_of(rest) == "Done."
    assert names_of(rest)[0] == "turn_resumed"
    assert names_of(rest)[-2:] == ["message_complete", "done"]


def test_a_tool_that_only_reads_runs_again_after_the_start(start, upstream, eventually):
    calls_then_answer(upstream, "look")
    server = start(MOCHI_OLLAMA_HOST=upstream.url, **CONTINUES)
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "slow.py").write_text(textwrap.dedent(TOOLS))
    session_id, seen, events, stream = begin(
        server.chat(),
        until=lambda event: event.name == "tool_call",
        tool_settings={"tools": ["look"], "execution_policy": "never_confirm"},
    )
    eventually((server.data_dir / "look").exists)
    server.stop()
    seen += check_end(events, stream)
    server = start(MOCHI_OLLAMA_HOST=upstream.url, **CONTINUES)
    rest = follow(server.chat(), session_id, seen[-1])
    assert (server.data_dir / "look").read_text() == "xx"
    assert text_of(rest) == "Done."
    assert names_of(rest)[0] == "turn_resumed"


def test_a_tool_that_changes_something_is_asked_about_after_the_start(start, upstream, eventually):
    calls_then_answer(upstream, "store")
    server = start(MOCHI_OLLAMA_HOST=upstream.url, **CONTINUES)
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "slow.py").write_text(textwrap.dedent(TOOLS))
    session_id, seen, events, stream = begin(
        server.chat(),
        until=lambda event: event.name == "tool_call",
        tool_settings={"tools": ["store"], "execution_policy": "never_confirm"},
    )
    eventually((server.data_dir / "store").exists)
    server.stop()
    seen += check_end(events, stream)
    server = start(MOCHI_OLLAMA_HOST=upstream.url, **CONTINUES)
    chat = server.chat()
    with chat.http.stream(
        "GET", f"/chat/{session_id}/stream", params={"after": seen[-1].id}
    ) as answer:
        rest = []
        for event in read_events(answer):
            rest.append(event)
            if event.name == "tool_call_confirmation_required":
                assert event.data["reason"] == "may_have_run"
                given = {"confirmation_id": event.data["confirmation_id"], "approved": False}
                chat.http.post(f"/chat/{session_id}/confirm-tool", json=given).raise_for_status()
    assert (server.data_dir / "store").read_text() == "x"  # never twice
    assert names_of(rest)[-2:] == ["message_complete", "done"]


@pytest.mark.slow
def test_who_listens_in_another_process_sees_nothing_of_a_restart_of_one(start, upstream):
    half_an_answer(upstream)
    variables = {"MOCHI_OLLAMA_HOST": upstream.url, **CONTINUES}
    server = start("--workers", "2", **variables)
    owner, other = server.web_processes
    session_id, seen, events, stream = begin(
        server.chat_with(owner), until=lambda event: event.data.get("content") == " an"
    )
    listener = server.chat_with(other)
    with listener.http.stream("GET", f"/chat/{session_id}/stream") as answer:
        followed = read_events(answer)
        begun = [next(followed) for _ in range(3)]
        owner.send_signal(signal.SIGTERM)
        whole = [*begun, *followed]
    assert numbers_of(whole) == list(range(1, len(whole) + 1))
    assert names_of(whole)[-2:] == ["message_complete", "done"]
    assert text_of(whole) == "Half an answer."
    seen += check_end(events, stream)
    again = follow(listener, session_id, seen[-1])
    assert numbers_of([*seen, *again]) == numbers_of(whole)


def test_a_rolling_restart_is_not_seen_by_who_attaches_again(start, upstream):
    half_an_answer(upstream)
    variables = {"MOCHI_OLLAMA_HOST": upstream.url, **CONTINUES}
    old = start(**variables)
    new = start(**variables)  # beside it, on the same data
    session_id, seen, events, stream = begin(
        old.chat(), until=lambda event: event.data.get("content") == " an"
    )
    stopping = threading.Thread(target=old.stop)
    stopping.start()
    seen += check_end(events, stream)
    chat = new.chat()
    rest = follow(chat, session_id, seen[-1])
    stopping.join()
    assert text_of([*seen, *rest]) == "Half an answer."
    assert numbers_of([*seen, *rest]) == list(range(1, len(seen) + len(rest) + 1))
    assert [m["content"] for m in chat.messages(session_id)] == ["Hello!", "Half an answer."]


def test_a_turn_that_nobody_comes_back_for_ends_as_before(start, upstream):
    half_an_answer(upstream)
    server = start(MOCHI_OLLAMA_HOST=upstream.url, **CONTINUES)
    chat = server.chat()
    session_id = chat.new_session()
    with chat.stream(session_id, message="Hello!") as events:
        while next(events).data.get("content") != " an":
            pass
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert names_of(list(events)) == ["error", "done"]
    stopping.join()
    assert server.session_file(session_id)["messages"][-1]["interrupted"] is True
