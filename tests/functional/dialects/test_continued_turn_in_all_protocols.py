"""A turn that goes on in another process: whoever listens ends with what the file has."""

import json
import signal
import threading
from typing import Any

import pytest

from mochi_server.testing import MochiServer, Reply
from scripted_app.thread import ScriptedModelThread
from tests.functional.conftest import Chat, text_of

VARIABLES = {"MOCHI_ON_CRASH": "continue", "MOCHI_SHUTDOWN_GRACE_SECONDS": "0"}
CASES = {
    "text": (
        Reply(["Half ", "an "], stall_after=2, stall_seconds=600),
        Reply([" answer."]),
        "Half an answer.",
    ),
    "results": (
        Reply("Never.", reasoning=["So ", "I ", "think "], stall_after=3, stall_seconds=600),
        "An answer.",
        "An answer.",
    ),
}


class Listener(threading.Thread):
    """Reads a stream of one protocol to its end.

    Attributes:
        events: The JSON of its events.
    """

    def __init__(self, chat: Chat, path: str) -> None:
        super().__init__(daemon=True)
        self.events: list[Any] = []
        self.begun = threading.Event()
        self._url = str(chat.http.base_url.join(path))
        self._http = chat.http
        self.start()

    def run(self) -> None:
        with self._http.stream("GET", self._url) as answer:
            assert answer.status_code == 200, answer.read()
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    self.events.append(json.loads(line.removeprefix("data: ")))
                    if "delta" in self.events[-1]["type"] or "CONTENT" in self.events[-1]["type"]:
                        self.begun.set()

    def whole(self) -> list[Any]:
        """Wait for the end."""
        self.join(60)
        assert not self.is_alive(), self.events
        return self.events


@pytest.fixture
def model():
    thread = ScriptedModelThread()
    yield thread
    thread.stop()


@pytest.mark.parametrize("keeps", CASES)
def test_every_protocol_shows_what_is_saved(start, model, keeps):
    first, rest, saved = CASES[keeps]
    server = start("--workers", "2", MOCHI_TEST_MODEL_URL=model.start(), **VARIABLES)
    MochiServer(server.url, server.data_dir, model, server.log).script(first, rest)
    owner, other = server.web_processes
    chat = server.chat_with(owner)
    session_id = chat.new_session()
    with chat.stream(session_id, message="Hello", detached=True, think=keeps != "text") as events:
        started = next(events)
        while next(events).name not in {"content_delta", "thinking_delta"}:
            pass
    turn_id = started.data["turn_id"]
    listeners = [
        Listener(server.chat_with(other), path)
        for path in (
            f"/api/v1/agui/{session_id}",
            f"/api/v1/ui/chat/{session_id}/stream",
            f"/v1/responses/resp_{session_id}{turn_id}?stream=true",
        )
    ]
    for listener in listeners:
        assert listener.begun.wait(60)
    owner.send_signal(signal.SIGTERM)
    ag_ui, ui, response = (listener.whole() for listener in listeners)
    reader = server.chat()
    native = reader.reattach(session_id)
    answer = reader.messages(session_id)[-1]
    assert answer["content"] == saved
    assert text_of(native) == saved
    (resumed,) = [event.data for event in native if event.name == "turn_resumed"]
    assert (resumed["keeps"], resumed["reason"]) == (keeps, "server_stopped")
    check_ag_ui(ag_ui, answer, resumed)
    check_ui(ui, answer, resumed)
    output = [each for each in response[-1]["response"]["output"] if each["type"] == "message"]
    assert [each["content"][0]["text"] for each in output] == [saved]
    assert response[-1]["type"] == "response.completed"
    again = reader.http.get(f"{server.url}/v1/responses/resp_{session_id}{turn_id}").json()
    assert again["output"] == response[-1]["response"]["output"]


def check_ag_ui(events, answer, resumed):
    """Check that a client has the answer of the file, and nothing that was discarded."""
    messages = {}
    for event in events:
        if event["type"] == "MESSAGES_SNAPSHOT":
            messages = {each["id"]: each.get("content", "") for each in event["messages"]}
        elif event["type"] in {"TEXT_MESSAGE_START", "REASONING_MESSAGE_START"}:
            messages.setdefault(event["messageId"], "")
        elif event["type"] in {"TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"}:
            messages[event["messageId"]] += event["delta"]
    assert messages[answer["message_id"]] == answer["content"]
    void = resumed.get("discarded", [])
    assert not [name for name in messages if any(each in name for each in void)], messages
    assert events[-1]["type"] == "RUN_FINISHED"


def check_ui(chunks, answer, resumed):
    """Check that a page has the answer of the file, and knows what is void before it."""
    (told,) = [each for each in chunks if each["type"] == "data-resumed"]
    assert told["data"] == resumed
    at = chunks.index(told) if "discarded" in resumed else 0
    text = "".join(each["delta"] for each in chunks[at:] if each["type"] == "text-delta")
    assert text == answer["content"]
    assert chunks[-1]["type"] == "finish"
