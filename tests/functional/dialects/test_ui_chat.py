"""A chat of the AI SDK whose worker is killed, as another worker tells of it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.functional.conftest import MODEL, Server, block

CHAT_ID = "a-chat-of-two-workers"
SLOW = block(["One ", "two ", "three"], stall_after=2, stall_seconds=600)


@pytest.fixture(scope="module")
def server(start_once: Any) -> Server:
    return start_once("--workers", "2")


def request(number: int, text: str, *known: Any) -> dict[str, Any]:
    said = {"id": f"said-{number}", "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": CHAT_ID, "model": MODEL, "messages": [*known, said]}


def chunks_of(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    assert answer.status_code == 200, answer.read()
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    lines = (line.removeprefix("data: ") for line in answer.iter_lines() if line[:6] == "data: ")
    for line in lines:
        if line == "[DONE]":
            return
        yield json.loads(line)
    pytest.fail("the stream had no end")


def text_of(chunks: list[dict[str, Any]]) -> str:
    return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")


def until_text(chunks: Iterator[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    while text_of(seen) != text:
        seen.append(next(chunks))
    return seen


def test_a_page_at_another_worker_sees_the_end_of_a_killed_one(server: Server) -> None:
    running, other = server.web_processes
    here, there = server.chat_with(running).http, server.chat_with(other).http
    with (
        here.stream("POST", "/ui/chat", json=request(1, SLOW)) as begun,
        there.stream("GET", f"/ui/chat/{CHAT_ID}/stream") as late,
    ):
        first = until_text(chunks_of(begun), "One two")
        replayed = chunks_of(late)
        assert until_text(replayed, "One two") == first
        running.kill()
        rest = list(replayed)
    assert [chunk["type"] for chunk in rest] == ["text-end", "finish-step", "error"]

    assert there.get(f"/ui/chat/{CHAT_ID}/stream").status_code == 204
    user, answer = there.get(f"/ui/chat/{CHAT_ID}/messages").json()["messages"]
    assert (user["id"], answer["id"]) == ("said-1", first[0]["messageId"])
    assert [part["type"] for part in answer["parts"]] == ["step-start", "text"]
    assert answer["parts"][1]["text"] == "One two"
    with there.stream("POST", "/ui/chat", json=request(2, block("Back."), user, answer)) as on:
        assert text_of(list(chunks_of(on))) == "Back."
