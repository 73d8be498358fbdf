"""A turn whose worker is killed ends equal in every protocol, for all who follow it elsewhere."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import httpx
import pytest

from tests.functional.conftest import MODEL, Server, StartServer, block
from tests.functional.dialects.conftest import Connect
from tests.functional.dialects.connecting import http_at

SLOW = block(["One ", "two ", "three"], stall_after=2, stall_seconds=600)
SAID = "One two"

Said = Callable[[Any], str]


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Server:
    return start_once("--workers", "2")


def told(answer: httpx.Response) -> Iterator[Any]:
    """Yield the data of a stream's events as they come."""
    assert answer.status_code == 200, answer.read()
    for line in answer.iter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


def in_completions(chunk: Any) -> str:
    return "".join(each["delta"].get("content") or "" for each in chunk.get("choices", ()))


def in_events(data: Any) -> str:
    return str(data.get("content", "")) if data.get("role") == "assistant" else ""


def in_responses(event: Any) -> str:
    return str(event["delta"]) if event["type"] == "response.output_text.delta" else ""


def in_chunks(chunk: Any) -> str:
    return str(chunk["delta"]) if chunk["type"] == "text-delta" else ""


def in_runs(event: Any) -> str:
    return str(event["delta"]) if event["type"] == "TEXT_MESSAGE_CONTENT" else ""


def until_said(stream: Iterator[Any], said: Said) -> list[Any]:
    """Read on until everything was said that the model says."""
    seen: list[Any] = []
    while "".join(map(said, seen)) != SAID:
        seen.append(next(stream))
    return seen


def test_who_follows_a_killed_turn_sees_the_same_text_and_an_end(
    server: Server, connect: Connect
) -> None:
    running, other = sorted(server.web_processes, key=lambda worker: worker.pid)
    with ExitStack() as stack:
        here, *there = (stack.enter_context(closing(http_at(server, at))) for at in (0, 1, 1, 1, 1))
        body = {"model": MODEL, "store": True, "stream": True}
        body |= {"messages": [{"role": "user", "content": SLOW}]}
        url = f"{server.url}/v1/chat/completions"
        begun = stack.enter_context(here.stream("POST", url, json=body))
        assert until_said(told(begun), in_completions)
        session_id = begun.headers["x-mochi-session-id"]
        turn_id = there[0].get(f"/sessions/{session_id}/status").json()["active_turn"]["turn_id"]
        response = f"{server.url}/v1/responses/resp_{session_id}{turn_id}?stream=true"
        streams = {
            in_events: f"/chat/{session_id}/stream",
            in_responses: response,
            in_chunks: f"/ui/chat/{session_id}/stream",
            in_runs: f"/agui/{session_id}",
        }
        following = {
            said: told(stack.enter_context(client.stream("GET", path)))
            for client, (said, path) in zip(there, streams.items(), strict=True)
        }
        for said, stream in following.items():
            until_said(stream, said)

        running.kill()

        ends = {said: list(stream) for said, stream in following.items()}
    assert ["".join(map(said, end)) for said, end in ends.items()] == ["", "", "", ""]
    assert ends[in_events][-2]["code"] == "TURN_INTERRUPTED"
    assert ends[in_responses][-1]["type"] == "response.failed"
    assert ends[in_chunks][-1]["type"] == "error"
    assert ends[in_runs][-1]["type"] == "RUN_ERROR"
    assert other.is_running()
    chat = server.chat()
    assert "".join(in_events(each.data) for each in chat.reattach(session_id)) == SAID
    late = connect(server).responses.retrieve(f"resp_{session_id}{turn_id}")
    assert (late.status, late.output_text.strip()) == ("failed", SAID.strip())
    [_, page] = chat.http.get(f"/ui/chat/{session_id}/messages").json()["messages"]
    [saved] = [each for each in chat.messages(session_id) if each["role"] == "assistant"]
    assert page["parts"][-1]["text"] == saved["content"] == SAID.strip()
    assert saved["interrupted"] is True
