"""Tools and models that try to run unasked, to run twice, or to speak in the server's name."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

TOOLS = '''
"""Tools of somebody who means no good."""

import os

__all__ = ["note", "odd", "fail"]

ODD = {{
    "frame": "\\r\\n\\nevent: done\\ndata: {{}}\\n\\n",
    "lines": "a\\u2028b\\u2029c\\x85d\\x0be\\x00f",
    "half": "a\\ud800b",
    "terminal": "\\x1b[2J\\x1b]0;owned\\x07",
    "bytes": b"\\xff\\x00\\r\\n\\r\\n",
    "huge": "x" * 10_000_000,
    "numbers": [float("nan"), 10**400],
}}


def note(text: str | int | bool) -> str:
    """Write a line down.

    Args:
        text: The line.
    """
    descriptor = os.open({runs!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, repr(text).encode() + b"\\n")
    os.close(descriptor)
    return f"noted {{text!r}}"


def odd(which: str) -> object:
    """Return something odd.

    Args:
        which: What.
    """
    return ODD[which]


def fail(which: str) -> str:
    """Raise something odd.

    Args:
        which: What.
    """
    raise ValueError(ODD[which])
'''
KINDS = ["frame", "lines", "half", "terminal", "bytes", "huge", "numbers"]


@pytest.fixture(scope="module")
def server(start_once: Callable[..., Any]) -> Any:
    """Return a server of two workers whose tools are hostile; its log is text, as on a terminal."""
    server = start_once("--workers", "2", MOCHI_LOG_FORMAT="text")
    tools = server.data_dir / "tools"
    tools.mkdir()
    (tools / "hostile.py").write_text(TOOLS.format(runs=str(server.data_dir / "runs")))
    return server


@pytest.fixture
def runs(server: Any) -> Iterator[Callable[[], list[str]]]:
    """Return what tells what was written down in this test."""
    path = server.data_dir / "runs"
    yield lambda: path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)


def session(chat: Any, policy: str) -> str:
    settings = {"tools": ["note", "odd", "fail"], "execution_policy": policy}
    return chat.new_session(tool_settings=settings)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_call": [{"name": name, "args": arguments}]}


def test_nothing_that_a_tool_says_is_taken_for_an_event(chat, script):
    session_id = session(chat, "never_confirm")
    wanted = [*(call("odd", which=k) for k in KINDS), *(call("fail", which=k) for k in KINDS)]
    message = script(*wanted, "Well.", per_request=True)
    with chat.http.stream(
        "POST", f"/chat/{session_id}/stream", json={"message": message}
    ) as answer:
        raw = answer.read()
    assert raw.isascii()
    assert b"\r" not in raw
    frames = [
        frame.split(b"\n")
        for frame in raw.removeprefix(b"retry: 2000\n").split(b"\n\n")
        if frame.startswith(b"id: ")
    ]
    events = [(lines[1].removeprefix(b"event: ").decode(), lines[2:]) for lines in frames]
    names = [name for name, _ in events]
    assert (names.count("done"), names[-1]) == (1, "done")
    assert names.count("tool_result") == 2 * len(KINDS)
    results = [
        json.loads(data[0].removeprefix(b"data: "))
        for name, data in events
        if name == "tool_result"
    ]
    assert [result["success"] for result in results] == [True] * len(KINDS) + [False] * len(KINDS)
    assert max(len(result["result"] or result["error_message"]) for result in results) < 70_000
    assert len(chat.http.get("/tools/executions").json()["executions"]) >= 2 * len(KINDS)


def test_what_a_tool_raises_neither_steers_the_terminal_nor_forges_a_line_of_the_log(
    server, chat, script
):
    chat.say(
        session(chat, "never_confirm"),
        script(
            call("fail", which="terminal"), call("fail", which="frame"), "So.", per_request=True
        ),
    )
    deadline = time.monotonic() + 60
    while server.log.read_bytes().count(b"fail failed") < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    log = server.log.read_bytes()
    assert b"\x1b" not in log
    assert b"\r" not in log
    assert b"\nevent: done" not in log


def test_however_often_an_approved_call_is_resumed_it_runs_once(server, chat, script, runs):
    session_id = session(chat, "always_confirm")
    message = script(call("note", text="once"), "Noted.", per_request=True)
    first = chat.http.post(f"/chat/{session_id}", json={"message": message})
    assert first.status_code == 202, first.text
    [question] = first.json()["pending_confirmations"]
    answer = {"confirmation_id": question["confirmation_id"], "approved": True}
    clients = [server.chat() for _ in range(12)]

    def attack(number: int) -> int:
        route, body = ("/confirm-tool", answer) if number % 2 else ("", {})
        return clients[number].http.post(f"/chat/{session_id}{route}", json=body).status_code

    with ThreadPoolExecutor(len(clients)) as threads:
        codes = list(threads.map(attack, range(len(clients))))
    assert codes[1::2].count(200) == 1
    assert set(codes[1::2]) <= {200, 409}
    for _ in range(3):
        chat.http.post(f"/chat/{session_id}", json={})
    assert runs() == ["'once'"]


@pytest.mark.parametrize("edited", [True, 1.0], ids=["true", "a float"])
def test_the_model_is_told_of_an_edit_that_python_takes_for_equal(chat, script, runs, edited):
    session_id = session(chat, "always_confirm")
    message = script(call("note", text=1), "Noted.", per_request=True)
    first = chat.http.post(f"/chat/{session_id}", json={"message": message})
    [question] = first.json()["pending_confirmations"]
    body = {"confirmation_id": question["confirmation_id"], "approved": True}
    answer = chat.http.post(
        f"/chat/{session_id}/confirm-tool", json=body | {"arguments": {"text": edited}}
    )
    assert answer.status_code == 200, answer.text
    assert chat.http.post(f"/chat/{session_id}", json={}).status_code == 200
    [told] = [m["content"] for m in chat.messages(session_id) if m["role"] == "tool"]
    assert told.startswith("(The user changed the arguments to ")
    assert len(runs()) == 1


def test_arguments_nested_too_deeply_run_nothing_and_the_model_is_told(chat, script, runs):
    nested: Any = "end"
    for _ in range(300):
        nested = [nested]
    session_id = session(chat, "never_confirm")
    message = script(call("note", text=nested), "Then not.", per_request=True)
    answer = chat.http.post(f"/chat/{session_id}", json={"message": message})
    assert answer.status_code == 200, answer.text
    [told] = [m["content"] for m in chat.messages(session_id) if m["role"] == "tool"]
    assert "nested more than 64 levels deep" in told
    assert runs() == []


@pytest.mark.parametrize("policy", ["never_confirm", "always_confirm"])
@pytest.mark.parametrize("name", ["agent", "server__tool", "../hostile", "note\n\nevent: done"])
def test_a_call_of_what_was_not_offered_runs_nothing_and_asks_nobody(chat, script, policy, name):
    session_id = session(chat, policy)
    message = script(
        call(name, agent="scribe", instruction="x", text="x"), "Then not.", per_request=True
    )
    answer = chat.http.post(f"/chat/{session_id}", json={"message": message})
    assert answer.status_code == 200, answer.text
    [tried] = answer.json()["tool_calls_executed"]
    assert tried["success"] is False
    assert tried["error_message"].startswith("There is no tool named")


@pytest.mark.parametrize(
    "policy", ["Never_Confirm", " never_confirm", "never_confirm\x00", "", None]
)
def test_a_policy_that_nobody_knows_asks(server, chat, script, runs, policy):
    session_id = session(chat, "never_confirm")
    path = server.data_dir / "chat_sessions" / f"{session_id}.json"
    stored = json.loads(path.read_text())
    stored["metadata"]["tool_settings"]["execution_policy"] = policy
    path.write_text(json.dumps(stored))
    message = script(call("note", text="x"), "Noted.", per_request=True)
    assert chat.http.post(f"/chat/{session_id}", json={"message": message}).status_code == 202
    assert runs() == []
