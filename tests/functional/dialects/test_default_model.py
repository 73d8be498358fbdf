"""Requests that name no model, in every protocol."""

import uuid
from collections.abc import Callable, Iterator

import httpx
import pytest
from openai import OpenAI

from tests.functional.conftest import NO_TLS, Server

HELLO = {"role": "user", "content": "Hello!"}


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False, verify=NO_TLS) as client:
        yield client


@pytest.fixture
def installed(http: httpx.Client) -> str:
    """Return the first model that is installed."""
    name: str = http.get("/api/v1/models").json()["models"][0]["name"]
    return name


def test_a_new_session_gets_the_first_installed_model(http: httpx.Client, installed: str) -> None:
    created = http.post("/api/v1/sessions", json={})
    assert (created.status_code, created.json()["model"]) == (201, installed)


def test_so_does_a_message_without_a_session(http: httpx.Client, installed: str) -> None:
    answer = http.post("/api/v1/chat", json={"message": "Hello!"}).json()
    session = http.get(f"/api/v1/sessions/{answer['session_id']}").json()
    assert session["model"] == installed


def test_so_does_a_response(openai: OpenAI, installed: str) -> None:
    response = openai.responses.create(input="Hello!")
    assert response.model == installed
    key = {"Idempotency-Key": uuid.uuid4().hex}
    first = openai.responses.create(input="Hello!", extra_headers=key)
    again = openai.responses.create(input="Hello!", extra_headers=key)
    assert (again.id, again.model) == (first.id, installed)


def test_so_does_the_first_response_of_a_conversation(openai: OpenAI, installed: str) -> None:
    conversation = openai.conversations.create()
    response = openai.responses.create(input="Hello!", conversation=conversation.id)
    assert response.model == installed


def test_so_does_a_completion(http: httpx.Client, installed: str) -> None:
    completion = http.post("/v1/chat/completions", json={"messages": [HELLO]})
    assert (completion.status_code, completion.json()["model"]) == (200, installed)


def test_a_completion_that_continues_a_session_has_the_sessions_model(
    http: httpx.Client, installed: str
) -> None:
    other = next(
        each["name"]
        for each in http.get("/api/v1/models").json()["models"]
        if each["name"] != installed
    )
    session = http.post("/api/v1/sessions", json={"model": other}).json()
    named = {"X-Mochi-Session-Id": session["session_id"]}
    completion = http.post("/v1/chat/completions", json={"messages": [HELLO]}, headers=named)
    assert completion.json()["model"] == other


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/api/v1/agui",
            lambda name: {
                "threadId": name,
                "runId": "r",
                "state": {},
                "messages": [{"id": "m", **HELLO}],
                "tools": [],
                "context": [],
                "forwardedProps": {},
            },
        ),
        (
            "/api/v1/ui/chat",
            lambda name: {
                "id": name,
                "trigger": "submit-message",
                "messages": [
                    {"id": "m", "role": "user", "parts": [{"type": "text", "text": "Hello!"}]}
                ],
            },
        ),
    ],
)
def test_so_does_a_new_thread_of_a_page(
    http: httpx.Client, installed: str, path: str, body: Callable[[str], object]
) -> None:
    name = uuid.uuid4().hex
    answer = http.post(path, json=body(name))
    assert answer.status_code == 200, answer.text
    newest = http.get("/api/v1/sessions").json()["sessions"][0]
    assert newest["model"] == installed
