"""A server with keys of several people, who have the same kinds of things."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from mochi_project.keys.key import new_key
from mochi_project.keys.store import KeyStore
from sessions_app.store.file_records import FileRecords
from tests.functional.conftest import MODEL, NO_TLS, Event, Server, StartServer, block, read_events

SKILL = "---\ndescription: Takes notes.\n---\nYou take notes.\n"
NOTE = '''
"""A tool that asks before it runs."""

__all__ = ["note"]


def note(text: str) -> str:
    """Write a line down.

    Args:
        text: The line.
    """
    return f"noted {text}"
'''
PEOPLE = ("read", "chat", "write", "approve")


@dataclass
class Person:
    """A client of the server with a key of its own."""

    owner: str
    token: str
    key_id: str
    http: httpx.Client
    ids: dict[str, str] = field(default_factory=dict)

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        answer = self.http.post(path, json=body, headers=headers)
        assert answer.status_code < 300, (path, answer.text)
        return answer

    def say(self, path: str, body: Any, until: str = "done") -> list[Event]:
        """Stream a turn up to an event."""
        seen: list[Event] = []
        with self.http.stream("POST", path, json=body) as answer:
            assert answer.status_code == 200, answer.read()
            for event in read_events(answer):
                seen.append(event)
                if event.name == until:
                    break
        return seen


@dataclass
class House:
    """A server and the people who use it."""

    server: Server
    people: list[Person] = field(default_factory=list)

    @property
    def store(self) -> KeyStore:
        return KeyStore(FileRecords(self.server.data_dir))

    def person(self, owner: str, **values: Any) -> Person:
        """Return a new client with a key."""
        key, token = new_key(owner=owner, **values)
        self.store.add(key)
        http = httpx.Client(
            base_url=self.server.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            trust_env=False,
            verify=NO_TLS,
        )
        self.people.append(Person(owner, token, key.id, http))
        return self.people[-1]


def folder_of(server: Server) -> None:
    """Give a server a tool and an agent."""
    tools, agent = server.data_dir / "tools", server.data_dir / "agents" / "scribe"
    for folder in (tools, agent):
        folder.mkdir(parents=True)
    (tools / "notes.py").write_text(NOTE)
    (agent / "SKILL.md").write_text(SKILL)
    (agent / "scribe.py").write_text(NOTE)
    (agent / "__init__.py").write_text("from .scribe import note\n__all__ = ['note']\n")


@pytest.fixture(scope="module")
def house(start_once: StartServer) -> Iterator[House]:
    server = start_once("--workers", "2", MOCHI_MCP_SERVER="true", MOCHI_METRICS="true")
    folder_of(server)
    house = House(server)
    yield house
    for person in house.people:
        person.http.close()


def plant(person: Person, secret: str) -> None:
    """Have somebody use every part of the server, with a secret in each of them."""
    ids = person.ids
    ids |= {"secret": secret, "file": f"{secret} file"}
    scribe = {"agent": "scribe", "instruction": block(f"{secret} of the agent", per_request=True)}
    calls = {"tool_call": [{"name": "agent", "args": scribe}]}
    session = person.post(
        "/api/v1/sessions",
        {
            "model": MODEL,
            "title": f"{secret} title",
            "system_prompt": f"{secret} prompt",
            "metadata": {"topic": f"{secret} label"},
            "tool_settings": {"execution_policy": "never_confirm"},
            "agent_settings": {"enabled_agents": ["scribe"]},
        },
        **{"Idempotency-Key": "of-a-session"},
    ).json()
    ids["session_id"] = session["session_id"]
    picture = person.http.post(
        "/api/v1/attachments",
        params={"name": f"{secret}.txt"},
        content=ids["file"].encode(),
        headers={"Content-Type": "application/octet-stream"},
    )
    assert picture.status_code == 201, picture.text
    ids["attachment_id"] = picture.json()["id"]
    said = block(calls, f"{secret} answer", per_request=True)
    path = f"/api/v1/chat/{ids['session_id']}/stream"
    events = person.say(path, {"message": said, "attachments": [{"id": ids["attachment_id"]}]})
    ids["turn_id"] = events[0].id.partition(":")[0]
    agents = [event.data["session_id"] for event in events if event.name == "agent_complete"]
    ids["agent_chat_id"] = agents[0]
    messages = person.http.get(f"/api/v1/sessions/{ids['session_id']}/messages").json()
    ids["message_id"] = messages["messages"][0]["message_id"]
    _plant_question(person, secret)
    _plant_other_protocols(person, secret)
    person.post(
        "/api/v1/chat",
        {"model": MODEL, "message": block(f"{secret} keyed")},
        **{"Idempotency-Key": "of-a-turn"},
    )


def _plant_question(person: Person, secret: str) -> None:
    """Leave a turn that waits for a person, and a message that waits for the turn."""
    ids = person.ids
    body = {"model": MODEL, "title": f"{secret} busy", "tool_settings": {"tools": ["note"]}}
    ids["busy_id"] = person.post("/api/v1/sessions", body).json()["session_id"]
    asks = block({"tool_call": [{"name": "note", "args": {"text": secret}}]}, per_request=True)
    path = f"/api/v1/chat/{ids['busy_id']}"
    until = "tool_call_confirmation_required"
    *_, question = person.say(f"{path}/stream", {"message": asks, "detached": True}, until)
    assert question.name == until, question
    ids["confirmation_id"] = question.data["confirmation_id"]
    queued = person.post(path, {"message": f"{secret} queued", "when_busy": "queue"}).json()
    ids["queued_id"] = queued["queued"]["message_id"]


def _plant_other_protocols(person: Person, secret: str) -> None:
    ids = person.ids
    text = block(f"{secret} answer")
    ids["chat_id"] = "chat-7f3k9a"
    part = {"type": "text", "text": text}
    message = {"id": "msg-1", "role": "user", "parts": [part]}
    person.post("/api/v1/ui/chat", {"id": ids["chat_id"], "messages": [message], "model": MODEL})
    ids["thread_id"] = "thread-7f3k9a"
    said = {"id": "m1", "role": "user", "content": text}
    run = {"threadId": ids["thread_id"], "runId": "run-1", "forwardedProps": {"model": MODEL}}
    person.post("/api/v1/agui", {**run, "messages": [said], "tools": [], "context": []})
    item = {"type": "message", "role": "user", "content": f"{secret} item"}
    conversation = person.post("/v1/conversations", {"items": [item]}).json()
    ids["conversation_id"] = conversation["id"]
    items = person.http.get(f"/v1/conversations/{conversation['id']}/items").json()
    ids["item_id"] = items["data"][0]["id"]
    response = person.post("/v1/responses", {"model": MODEL, "input": text}).json()
    ids["response_id"] = response["id"]
    kept = {"model": MODEL, "messages": [{"role": "user", "content": text}], "store": True}
    person.post("/v1/chat/completions", kept, **{"Idempotency-Key": "of-a-completion"})


def files_below(folder: Path) -> dict[str, str]:
    """Return the digest of every file of a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def shown(value: Any) -> str:
    return json.dumps(value, indent=1)
