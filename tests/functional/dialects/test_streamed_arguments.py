"""Arguments of calls as a model writes them: on pages of the AI SDK and in runs of AG-UI."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.functional.conftest import Server, block

TOOL = '''
"""A tool with a long argument."""

__all__ = ["note"]


def note(text: str) -> str:
    """Write a line down.

    Args:
        text: The line.
    """
    return f"noted {len(text)}"
'''
TEXT = "a line that is long enough for several pieces"
CALL = {"tool_call": [{"name": "note", "args": {"text": TEXT}}]}
WHOLE = block(CALL, {"text_message": {"text": ["It is ", "noted."]}}, per_request=True)
CUT = block(CALL, per_request=True, stall_after=3, stall_seconds=600)


@pytest.fixture(scope="module")
def server(start_once: Any) -> Server:
    server: Server = start_once("--workers", "2", OPENAI_API_KEY="sk-test")
    (server.data_dir / "tools").mkdir(exist_ok=True)
    (server.data_dir / "tools" / "notes.py").write_text(TOOL)
    return server


@pytest.fixture
def session_id(server: Server) -> str:
    policy = {"tools": ["note"], "execution_policy": "never_confirm"}
    made: str = server.chat().new_session(model="openai:gpt-5.1", tool_settings=policy)
    return made


def sent(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    assert answer.status_code == 200, answer.read()
    for line in answer.iter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def ask(session_id: str, text: str) -> dict[str, Any]:
    said = {"id": "said-1", "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": session_id, "messages": [said]}


def until_cut(events: Iterator[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return what comes up to the second piece of the arguments."""
    seen: list[dict[str, Any]] = []
    while sum(each["type"] == kind for each in seen) < 2:
        seen.append(next(events))
    return seen


def test_a_page_gets_the_input_in_pieces_and_then_whole(server: Server, session_id: str) -> None:
    http = server.chat().http
    with http.stream("POST", "/ui/chat", json=ask(session_id, WHOLE)) as answer:
        chunks = [each for each in sent(answer) if "toolCallId" in each]
    kinds = [each["type"] for each in chunks]
    pieces = [each["inputTextDelta"] for each in chunks if each["type"] == "tool-input-delta"]
    assert (kinds[0], kinds[-2:]) == (
        "tool-input-start",
        ["tool-input-available", "tool-output-available"],
    )
    assert len(pieces) > 1
    assert json.loads("".join(pieces)) == chunks[-2]["input"] == {"text": TEXT}
    assert {each["toolCallId"] for each in chunks} == {chunks[0]["toolCallId"]}


def test_a_run_gets_the_arguments_in_pieces(server: Server, session_id: str) -> None:
    body = {
        "threadId": session_id,
        "runId": "run-1",
        "state": {},
        "messages": [{"id": "u1", "role": "user", "content": WHOLE}],
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }
    with server.chat().http.stream("POST", "/agui", json=body) as answer:
        events = [each for each in sent(answer) if each["type"].startswith("TOOL_CALL")]
    kinds = [each["type"] for each in events]
    pieces = [each["delta"] for each in events if each["type"] == "TOOL_CALL_ARGS"]
    assert kinds[0] == "TOOL_CALL_START"
    assert kinds[-2:] == ["TOOL_CALL_END", "TOOL_CALL_RESULT"]
    assert len(pieces) > 1
    assert json.loads("".join(pieces)) == {"text": TEXT}


def test_who_comes_late_gets_the_same_and_a_crash_closes_what_is_open(
    server: Server, session_id: str
) -> None:
    running, other = server.web_processes
    here, there = server.chat_with(running).http, server.chat_with(other).http
    beside = server.chat_with(other).http  # a second stream needs a connection of its own
    with (
        here.stream("POST", "/ui/chat", json=ask(session_id, CUT)) as begun,
        there.stream("GET", f"/ui/chat/{session_id}/stream") as late,
        beside.stream("GET", f"/agui/{session_id}") as thread,
    ):
        first = until_cut(sent(begun), "tool-input-delta")
        replayed, run = sent(late), sent(thread)
        assert until_cut(replayed, "tool-input-delta") == first
        until_cut(run, "TOOL_CALL_ARGS")
        running.kill()
        kinds = [each["type"] for each in replayed]
        of_run = [each["type"] for each in run]
    assert kinds[-3:] == ["tool-input-error", "finish-step", "error"]
    assert of_run[-2:] == ["TOOL_CALL_END", "RUN_ERROR"]
