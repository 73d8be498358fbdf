"""Front ends that begin a conversation with a greeting: the assistant's first message."""

import json
from typing import Any

import httpx
import pytest

from mochi_server.testing import MODEL, MochiServer
from tests.functional.conftest import NO_TLS
from tests.functional.dialects.conftest import ServeOnce

GREETING = "Hello! What can I do?"


@pytest.fixture(scope="module")
def server(serve_once: ServeOnce) -> MochiServer:
    return serve_once()


def post(server: MochiServer, path: str, body: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=body, trust_env=False, verify=NO_TLS, timeout=60)


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    lines = [
        line.removeprefix("data: ") for line in answer.text.splitlines() if line[:6] == "data: "
    ]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def heard(server: MochiServer) -> list[tuple[str, str]]:
    """Return what the model got with its last request."""
    return [(each["role"], each["content"]) for each in server.model_requests[-1]["messages"]]


def test_a_chat_of_the_ai_sdk_may_begin_with_a_greeting(server: MochiServer) -> None:
    def said(name: str, role: str, text: str) -> dict[str, Any]:
        return {"id": name, "role": role, "parts": [{"type": "text", "text": text}]}

    history = [said("welcome", "assistant", GREETING), said("q1", "user", "Hi.")]
    body = {"id": "greeted-chat", "model": MODEL}
    events = events_of(post(server, "/api/v1/ui/chat", {**body, "messages": history}))
    assert heard(server) == [("assistant", GREETING), ("user", "Hi.")]

    name = next(each["messageId"] for each in events if each["type"] == "start")
    history += [said(name, "assistant", "What it said."), said("q2", "user", "Again.")]
    events_of(post(server, "/api/v1/ui/chat", {**body, "messages": history}))
    assert heard(server)[0] == ("assistant", GREETING)
    assert heard(server)[-1] == ("user", "Again.")

    begun = {"id": "another-chat", "model": MODEL, "messages": [*history[1:], history[0]]}
    begun["messages"][-1] = said("q3", "user", "And now?")
    refused = post(server, "/api/v1/ui/chat", begun)
    assert refused.status_code == 409
    assert "messages that the server does not know" in refused.text


def test_a_thread_of_ag_ui_may_begin_with_a_greeting(server: MochiServer) -> None:
    history = [
        {"id": "welcome", "role": "assistant", "content": GREETING},
        {"id": "q1", "role": "user", "content": "Hi."},
    ]

    def run(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        body = {"threadId": "greeted", "runId": "r", "forwardedProps": {"model": MODEL}}
        return events_of(post(server, "/api/v1/agui", {**body, "messages": messages}))

    events = run(history)
    assert heard(server) == [("assistant", GREETING), ("user", "Hi.")]

    name = next(each["messageId"] for each in events if each["type"] == "TEXT_MESSAGE_START")
    history += [
        {"id": name, "role": "assistant", "content": "What it said."},
        {"id": "q2", "role": "user", "content": "Again."},
    ]
    run(history)
    assert heard(server)[0] == ("assistant", GREETING)
    assert heard(server)[-1] == ("user", "Again.")
