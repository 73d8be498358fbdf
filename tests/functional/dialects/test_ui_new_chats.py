"""Chats of ``useChat`` that begin with the settings of a session."""

from typing import Any
from uuid import uuid4

import pytest

from tests.functional.conftest import MODEL, Chat, block

SETTINGS = {
    "system_prompt": "Be brief.",
    "tool_settings": {"tools": ["add_numbers"], "execution_policy": "never_confirm"},
    "options": {"temperature": 0.5},
    "title": "Sums",
    "metadata": {"project": "sea"},
}


def send(chat: Chat, chat_id: str, text: str, **more: Any) -> Any:
    parts = [{"type": "text", "text": text}]
    messages = [{"id": uuid4().hex, "role": "user", "parts": parts}]
    body = {"id": chat_id, "messages": messages, "trigger": "submit-message", **more}
    headers = {"accept": "application/json, text/event-stream"}
    return chat.http.post("/ui/chat", json=body, headers=headers)


def session_of(chat: Chat, title: str) -> dict[str, Any]:
    [found] = chat.http.get("/sessions", params={"q": title}).json()["sessions"]
    session: dict[str, Any] = chat.http.get(f"/sessions/{found['session_id']}").json()
    return session


def test_a_new_chat_takes_the_settings_of_a_session(chat: Chat) -> None:
    chat_id, title = uuid4().hex, uuid4().hex
    settings = {**SETTINGS, "title": title}
    answer = send(chat, chat_id, block("Yes."), model=MODEL, session=settings)
    assert answer.status_code == 200, answer.text
    session = session_of(chat, title)
    assert session["tool_settings"].items() >= SETTINGS["tool_settings"].items()
    assert {name: session[name] for name in ("options", "metadata")} == {
        name: SETTINGS[name] for name in ("options", "metadata")
    }
    assert [message["role"] for message in session["messages"]] == ["system", "user", "assistant"]
    [*_, shown] = chat.http.get(f"/ui/chat/{chat_id}/messages").json()["messages"]
    assert shown["metadata"]["session_id"] == session["session_id"]


def test_a_chat_that_exists_keeps_its_settings(chat: Chat) -> None:
    chat_id, title = uuid4().hex, uuid4().hex
    assert send(chat, chat_id, block("Yes."), session={"title": title}).status_code == 200
    known = chat.http.get(f"/ui/chat/{chat_id}/messages").json()["messages"]
    again = {"id": "m2", "role": "user", "parts": [{"type": "text", "text": block("No.")}]}
    body = {"id": chat_id, "messages": [*known, again], "session": {"title": "Another"}}
    assert chat.http.post("/ui/chat", json=body).status_code == 200
    assert len(session_of(chat, title)["messages"]) == 4


@pytest.mark.parametrize(
    ("more", "field", "named"),
    [
        ({"tools": ["add_numbers"]}, "body", "tools"),
        ({"session": {"toolz": []}}, "session.toolz", "toolz"),
        ({"session": {"options": {"temperature": "hot"}}}, "session.options", "temperature"),
        ({"session": {"context_strategy": "magic"}}, "context_strategy", "magic"),
    ],
)
def test_what_is_not_known_is_refused_and_makes_no_chat(
    chat: Chat, more: dict[str, Any], field: str, named: str
) -> None:
    chat_id = uuid4().hex
    answer = send(chat, chat_id, "Hello", **more)
    assert answer.status_code == 422, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", field)
    assert named in error["message"]
    assert chat.http.get(f"/ui/chat/{chat_id}/messages").json()["messages"] == []
