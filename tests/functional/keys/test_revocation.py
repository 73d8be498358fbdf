"""A key ends: its requests are refused, its streams end as they can, its turns are cancelled."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.functional.conftest import MODEL, StartServer, block
from tests.functional.keys.conftest import House, Person, folder_of

pytestmark = pytest.mark.slow
ASKS = block({"tool_call": [{"name": "note", "args": {"text": "x"}}]}, per_request=True)
WAITS = {"tools": ["note"]}


@pytest.fixture(scope="module")
def house(start_once: StartServer) -> Iterator[House]:
    server = start_once("--workers", "2", MOCHI_TEST_WORDS_PER_SECOND="2")
    folder_of(server)
    house = House(server)
    yield house
    for person in house.people:
        person.http.close()


class Listening(threading.Thread):
    """Reads the lines of a stream, until it ends."""

    def __init__(self, person: Person, method: str, path: str, body: Any = None, **headers: str):
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self.has_begun = threading.Event()
        self._open = lambda: person.http.stream(method, path, json=body, headers=headers)
        self.start()
        assert self.has_begun.wait(60)

    def run(self) -> None:
        try:
            with self._open() as answer:
                assert answer.status_code == 200, answer.read()
                for line in answer.iter_lines():
                    if line and not line.startswith(":"):
                        self.lines.append(line)
                        self.has_begun.set()
        finally:
            self.has_begun.set()

    def to_the_end(self) -> list[str]:
        self.join(60)
        assert not self.is_alive(), self.lines
        return self.lines


LONG = block("word " * 400)
SAID = {"role": "user", "content": LONG}


def chat_of_ui(text: str) -> dict[str, Any]:
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": "revoked-chat", "messages": [message], "model": MODEL}


def native(lines: list[str]) -> bool:
    return lines[-2] == "event: error" and '"UNAUTHENTICATED"' in lines[-1]


def error_of_openai(lines: list[str]) -> bool:
    errors = [line for line in lines if '"error"' in line]
    return "expired or was revoked" in errors[-1] and lines[-1] in {errors[-1], "data: [DONE]"}


def says_so(kind: str) -> Callable[[list[str]], bool]:
    def said(lines: list[str]) -> bool:
        ends = [line for line in lines[-4:] if "expired or was revoked" in line]
        return len(ends) == 1 and kind in ends[0]

    return said


STREAMS: dict[str, tuple[str, str, Any, Callable[[list[str]], bool]]] = {
    "native": ("POST", "/api/v1/chat/stream", {"model": MODEL, "message": LONG}, native),
    "changes": ("GET", "/api/v1/events", None, native),
    "chat completions": (
        "POST",
        "/v1/chat/completions",
        {"model": MODEL, "messages": [SAID], "stream": True},
        error_of_openai,
    ),
    "responses": (
        "POST",
        "/v1/responses",
        {"model": MODEL, "input": LONG, "stream": True},
        says_so('"type":"response.failed"'),
    ),
    "messages": (
        "POST",
        "/v1/messages",
        {"model": MODEL, "max_tokens": 4000, "messages": [SAID], "stream": True},
        says_so('"type":"error"'),
    ),
    "AI SDK": ("POST", "/api/v1/ui/chat", chat_of_ui(LONG), says_so('"type":"error"')),
    "AG-UI": (
        "POST",
        "/api/v1/agui",
        {
            "threadId": "revoked-thread",
            "runId": "r1",
            "messages": [{"id": "m1", **SAID}],
            "tools": [],
            "context": [],
            "forwardedProps": {"model": MODEL},
        },
        says_so('"type":"RUN_ERROR"'),
    ),
    "Ollama": (
        "POST",
        "/ollama/api/chat",
        {"model": MODEL, "messages": [SAID]},
        says_so('"error"'),
    ),
}


@pytest.mark.parametrize("protocol", STREAMS)
def test_a_stream_of_a_revoked_key_ends_with_an_error_of_its_protocol(
    house: House, protocol: str
) -> None:
    method, path, body, ends_well = STREAMS[protocol]
    person = house.person(f"owner-{len(house.people)}")
    stream = Listening(person, method, path, body)

    house.store.revoke(person.key_id)

    lines = stream.to_the_end()
    assert ends_well(lines), lines[-6:]
    assert person.http.get("/api/v1/sessions").status_code == 401


def begun(person: Person) -> tuple[str, Listening]:
    session_id: str = person.post(
        "/api/v1/sessions", {"model": MODEL, "tool_settings": WAITS}
    ).json()["session_id"]
    path = f"/api/v1/chat/{session_id}/stream"
    return session_id, Listening(person, "POST", path, {"message": ASKS})


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("keeps", [False, True])
def test_the_turns_of_a_revoked_key_are_cancelled_unless_they_are_kept(
    house: House, keeps: bool
) -> None:
    owner = f"owner-{len(house.people)}"
    first, second = house.person(owner), house.person(owner)
    session_id, stream = begun(first)

    house.store.revoke(first.key_id, keep_turns=keeps)

    lines = stream.to_the_end()
    assert native(lines)
    journal = house.server.data_dir / "users" / owner / ".mochi" / "turns"
    assert not any("UNAUTHENTICATED" in each.read_text() for each in journal.rglob("*.jsonl"))

    def is_active() -> bool:
        status = second.http.get(f"/api/v1/sessions/{session_id}/status").json()
        return status["active_turn"] is not None

    if keeps:
        assert is_active()
        [asked] = second.http.get(f"/api/v1/chat/{session_id}/confirmations").json()[
            "confirmations"
        ]
        answer = {"confirmation_id": asked["confirmation_id"], "approved": True}
        second.post(f"/api/v1/chat/{session_id}/confirm-tool", answer)
    until(lambda: not is_active())
    messages = second.http.get(f"/api/v1/sessions/{session_id}/messages").json()["messages"]
    results = [each for each in messages if each["role"] == "tool"]
    assert any("noted x" in str(each["content"]) for each in results) is keeps


def test_a_rotated_key_goes_on_with_its_new_token_where_it_was(house: House) -> None:
    person = house.person(f"owner-{len(house.people)}")
    session_id, stream = begun(person)
    _, token = house.store.rotate(person.key_id)

    assert native(stream.to_the_end())
    ids = [line for line in stream.lines if line.startswith("id: ")]
    assert person.http.get("/api/v1/sessions").status_code == 401
    person.http.headers["Authorization"] = f"Bearer {token}"
    person.post(f"/api/v1/chat/{session_id}/cancel", {})
    path, last = f"/api/v1/chat/{session_id}/stream", {"Last-Event-ID": ids[-1][4:]}
    rest = Listening(person, "GET", path, **last).to_the_end()
    assert [line for line in rest if line.startswith("event: ")][-2:] == [
        "event: cancelled",
        "event: done",
    ]


def test_a_token_that_changes_while_a_body_arrives_keeps_no_stream(house: House) -> None:
    person = house.person(f"owner-{len(house.people)}")
    body = json.dumps({"model": MODEL, "message": LONG}).encode()

    def arriving() -> Iterator[bytes]:
        yield body[:10]
        house.store.rotate(person.key_id)
        until(lambda: person.http.get("/api/v1/sessions").status_code == 401)
        yield body[10:]

    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    answer = person.http.post("/api/v1/chat/stream", content=arriving(), headers=headers)

    assert '"UNAUTHENTICATED"' in answer.text
    assert "event: done" not in answer.text


def test_messages_that_wait_end_with_the_key_that_sent_them(house: House) -> None:
    owner = f"owner-{len(house.people)}"
    first, second = house.person(owner), house.person(owner)
    session_id, stream = begun(second)
    waiting = {"message": "Hello!", "when_busy": "queue"}
    queued = first.post(f"/api/v1/chat/{session_id}", waiting).json()["queued"]
    house.store.revoke(first.key_id)
    until(lambda: first.http.get("/api/v1/sessions").status_code == 401)

    [asked] = second.http.get(f"/api/v1/chat/{session_id}/confirmations").json()["confirmations"]
    answer = {"confirmation_id": asked["confirmation_id"], "approved": True}
    second.post(f"/api/v1/chat/{session_id}/confirm-tool", answer)
    stream.to_the_end()

    def said() -> list[dict[str, Any]]:
        answer = second.http.get(f"/api/v1/sessions/{session_id}/messages").json()
        return list(answer["messages"])

    until(lambda: any(each["message_id"] == queued["message_id"] for each in said()))
    until(
        lambda: (
            second.http.get(f"/api/v1/sessions/{session_id}/status").json()["active_turn"] is None
        )
    )
    assert not any(
        each["role"] == "assistant" and not each.get("cancelled") for each in said()[-1:]
    ), json.dumps(said()[-2:])
