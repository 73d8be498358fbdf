"""Messages that come while a turn runs, in each protocol: refused, queued, or at once."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall
from tests.functional.conftest import NO_TLS
from tests.functional.dialects.conftest import ServeOnce

SLOW = """
import pathlib, time

__all__ = ["wait"]
__destructive__ = []

def wait() -> str:
    \"\"\"Wait until a file is there.\"\"\"
    folder = pathlib.Path(__file__).parent
    (folder / "waits").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    return "waited"
"""
WAITING = {"tool_settings": {"tools": ["wait"], "execution_policy": "never_confirm"}}
STUCK = Reply(["One ", "two"], stall_after=1, stall_seconds=600)


@pytest.fixture(scope="module")
def shared(serve_once: ServeOnce) -> MochiServer:
    server = serve_once("--workers", "2")
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "slow.py").write_text(SLOW)
    return server


@pytest.fixture
def server(shared: MochiServer) -> MochiServer:
    shared.reset()
    for name in ("waits", "go"):
        (shared.data_dir / "tools" / name).unlink(missing_ok=True)
    return shared


@pytest.fixture
def http(server: MochiServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, verify=NO_TLS, timeout=60) as client:
        yield client


def events_of(lines: Iterator[str]) -> Iterator[Any]:
    """Return the JSON of a stream's events."""
    for line in lines:
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


@contextmanager
def streaming(http: httpx.Client, path: str, body: Any, **headers: str) -> Iterator[Iterator[Any]]:
    with http.stream("POST", path, json=body, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        yield events_of(answer.iter_lines())


class UIChat:
    """A chat of the AI SDK."""

    path = "/api/v1/ui/chat"

    def __init__(self, name: str) -> None:
        self.name = name

    def says(self, number: int, text: str, *before: Any, **fields: Any) -> dict[str, Any]:
        message = {"id": f"m{number}", "role": "user", "parts": [{"type": "text", "text": text}]}
        return {"id": self.name, "messages": [*before, message], "model": MODEL, **fields}

    def messages(self, http: httpx.Client) -> list[Any]:
        return list(http.get(f"/api/v1/ui/chat/{self.name}/messages").json()["messages"])


def user(number: int, text: str) -> dict[str, Any]:
    return {"id": f"m{number}", "role": "user", "parts": [{"type": "text", "text": text}]}


def texts(events: list[Any], kind: str = "text-delta") -> str:
    return "".join(event["delta"] for event in events if event["type"] == kind)


def test_a_page_that_lacks_what_runs_is_told_that_the_chat_is_busy(server, http):
    server.script(ToolCall("wait", {}), "Waited.")
    chat = UIChat("lacking")
    body = chat.says(1, "Wait.", session=WAITING)
    with streaming(http, chat.path, body) as events:
        assert any(event["type"] == "tool-input-available" for event in events)
        # The page lacks the saved round with the call; that makes no other conversation of it.
        answer = http.post(chat.path, json=chat.says(2, "More.", user(1, "Wait.")))
        assert (answer.status_code, answer.headers["x-mochi-error"]) == (409, "SESSION_BUSY")
        (server.data_dir / "tools" / "go").touch()
        rest = list(events)
        assert texts(rest) == "Waited.", rest


def test_a_page_queues_a_message_and_gets_its_answer(server, http):
    server.script(Reply("The first.", stall_after=1, stall_seconds=2), "The second.")
    chat = UIChat("queueing")
    with streaming(http, chat.path, chat.says(1, "Hello")) as events:
        first = [next(events) for _ in range(4)]
        turn = {"id": first[0]["messageId"], "role": "assistant", "parts": []}
        body = chat.says(2, "And?", user(1, "Hello"), turn, when_busy="queue")
        with streaming(http, chat.path, body) as waiting:
            queued = next(waiting)
            assert (queued["type"], queued["transient"]) == ("data-queued", True)
            assert queued["data"]["position"] == 1
            rest = list(waiting)
        assert texts([*first, *events]) == "The first."
    assert (rest[0]["type"], rest[-1]["type"]) == ("start", "finish")
    assert texts(rest) == "The second."
    assert [each["id"] for each in chat.messages(http)] == [
        "m1",
        first[0]["messageId"],
        "m2",
        rest[0]["messageId"],
    ]
    turns = [{"id": each["id"], "role": each["role"], "parts": each["parts"]}
             for each in chat.messages(http)]  # fmt: skip
    server.script("The third.")
    with streaming(http, chat.path, chat.says(3, "More?", *turns)) as events:
        assert texts(list(events)) == "The third."


def test_a_page_that_sends_a_waiting_message_again_queues_it_once(server, http):
    server.script(STUCK)
    chat = UIChat("again")
    with streaming(http, chat.path, chat.says(1, "Hello")) as events:
        turn = {"id": next(events)["messageId"], "role": "assistant", "parts": []}
        body = chat.says(2, "And?", user(1, "Hello"), turn, when_busy="queue")
        told = []
        for _ in range(2):
            with streaming(http, chat.path, body) as waiting:
                told.append(next(waiting)["data"])
        assert told[0] == told[1]
        inbox = http.get(f"/api/v1/chat/{told[0]['session_id']}/inbox").json()
        assert [each["content"] for each in inbox["messages"]] == ["And?"]


def test_a_page_steers_and_the_running_stream_shows_it(server, http):
    server.script(ToolCall("wait", {}), "As you like.")
    chat = UIChat("steering")
    body = chat.says(1, "Wait.", session=WAITING)
    with streaming(http, chat.path, body) as events:
        seen = []
        for event in events:
            seen.append(event)
            if event["type"] == "tool-input-available":
                break
        steer = chat.says(2, "Rather two.", user(1, "Wait."), when_busy="steer")
        with streaming(http, chat.path, steer) as answer:
            assert [event["type"] for event in answer] == ["data-steered", "finish"]
        (server.data_dir / "tools" / "go").touch()
        seen += events
    kinds = [event["type"] for event in seen]
    assert kinds.index("tool-output-available") < kinds.index("data-user-message")
    (told,) = [event for event in seen if event["type"] == "data-user-message"]
    assert told["data"]["parts"] == [{"type": "text", "text": "Rather two."}]
    asked = server.model_requests[-1]["messages"]
    assert [each["role"] for each in asked][-3:] == ["assistant", "tool", "user"]
    _, shown = chat.messages(http)  # the same as the stream showed
    assert [part["type"] for part in shown["parts"]] == [
        *("step-start", "dynamic-tool", "data-user-message", "step-start", "text")
    ]


def test_a_page_interrupts(server, http):
    server.script(STUCK, "The second.")
    chat = UIChat("interrupting")
    with streaming(http, chat.path, chat.says(1, "Hello")) as events:
        first = [next(events) for _ in range(4)]
        body = chat.says(2, "Stop, and this.", user(1, "Hello"), when_busy="interrupt")
        with streaming(http, chat.path, body) as answer:
            assert texts(list(answer)) == "The second."
        assert [event["type"] for event in events][-1] == "abort"
    messages = chat.messages(http)
    assert [each["role"] for each in messages] == ["user", "assistant", "user", "assistant"]
    assert texts(first)


def run_input(thread: str, *messages: Any, **props: Any) -> dict[str, Any]:
    said = [
        {"id": f"u{number}", "role": "user", "content": each} if isinstance(each, str) else each
        for number, each in enumerate(messages, 1)
    ]
    return {
        "threadId": thread,
        "runId": f"run{len(messages)}",
        "messages": said,
        "forwardedProps": {"model": MODEL, **props},
    }


@pytest.mark.parametrize("how", ["queue", "interrupt"])
def test_a_run_waits_for_the_one_before_it_or_ends_it(server, http, how):
    begun = Reply("The first.", stall_after=1, stall_seconds=2) if how == "queue" else STUCK
    server.script(begun, "The second.")
    path, thread = "/api/v1/agui", f"thread-{how}"
    with streaming(http, path, run_input(thread, "Hello")) as events:
        for event in events:
            if event["type"] == "TEXT_MESSAGE_CONTENT":
                break
        part = {"id": event["messageId"], "role": "assistant", "content": event["delta"]}
        busy = http.post(path, json=run_input(thread, "Hello", part, "And?"))
        assert (busy.status_code, busy.json()["error"]["code"]) == (409, "SESSION_BUSY")
        body = run_input(thread, "Hello", part, "And?", whenBusy=how)
        with streaming(http, path, body) as waiting:
            run = list(waiting)
        first = list(events)
    assert run[0]["type"] == "RUN_STARTED"
    assert run[0]["runId"] == "run3"
    said = "".join(e["delta"] for e in run if e["type"] == "TEXT_MESSAGE_CONTENT")
    assert said == "The second."
    outcome = first[-1]["outcome"]["type"]
    assert outcome == ("success" if how == "queue" else "cancelled")
    with http.stream("GET", f"{path}/{thread}") as answer:
        (snapshot,) = [
            e for e in events_of(answer.iter_lines()) if e["type"] == "MESSAGES_SNAPSHOT"
        ]
    assert [each["id"] for each in snapshot["messages"]][::2] == ["u1", "u3"]


def test_a_run_can_not_steer(server, http):
    answer = http.post("/api/v1/agui", json=run_input("steerless", "Hi", whenBusy="steer"))
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["details"]["field"] == "forwardedProps.whenBusy"
    assert "forwardedProps.whenBusy is one of refuse, queue, interrupt" in error["message"]


@pytest.fixture
def begin(http: httpx.Client) -> Callable[..., str]:
    """Start a detached turn of a session, and return the session once it speaks."""

    def start() -> str:
        session = http.post("/api/v1/sessions", json={"model": MODEL}).json()["session_id"]
        body = {"message": "Hello", "detached": True}
        with streaming(http, f"/api/v1/chat/{session}/stream", body) as events:
            for event in events:
                if event.get("content"):
                    return str(session)
        raise AssertionError

    return start


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("how", ["queue", "interrupt"])
def test_a_completion_waits_for_the_turn_before_it_or_ends_it(server, http, begin, how, streams):
    slow = Reply("The first.", stall_after=1, stall_seconds=2) if how == "queue" else STUCK
    server.script(slow, "The second.")
    session = begin()
    body = {"model": MODEL, "messages": [{"role": "user", "content": "And?"}], "stream": streams}
    headers = {"X-Mochi-Session-Id": session}
    path = "/v1/chat/completions"
    assert http.post(path, json=body, headers=headers).status_code == 409
    answer = http.post(path, json=body, headers={**headers, "X-Mochi-When-Busy": how})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-mochi-session-id"] == session
    if streams:
        chunks = [each["choices"][0] for each in events_of(iter(answer.text.splitlines()))]
        text = "".join(each["delta"].get("content") or "" for each in chunks)
        assert answer.text.startswith(":")  # before the answer, so that nobody gives up
    else:
        text = answer.json()["choices"][0]["message"]["content"]
    assert text == "The second."


def test_all_native_routes_tell_the_same_of_a_message_that_waits(http, begin, server):
    server.script(STUCK)
    path = f"/api/v1/chat/{begin()}"
    body = {"message": "And?", "when_busy": "queue"}
    queued = [http.post(way, json=body).json()["queued"] for way in (path, f"{path}/stream")]
    change = {"content": "And Italy?"}
    changed = http.put(f"{path}/inbox/{queued[0]['message_id']}", json=change).json()["queued"]
    for each in (*queued, changed):
        assert sorted(each) == ["message_id", "position", "state", "when_busy"]


def test_a_completion_can_not_steer(http, begin, server):
    server.script(STUCK)
    headers = {"X-Mochi-Session-Id": begin(), "X-Mochi-When-Busy": "steer"}
    body = {"model": MODEL, "messages": [{"role": "user", "content": "And?"}]}
    answer = http.post("/v1/chat/completions", json=body, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "X-Mochi-When-Busy")
    assert "X-Mochi-When-Busy: Input should be 'refuse', 'queue' or 'interrupt'" in error["message"]


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/v1/chat/completions", ["refuse", "queue", "interrupt"]),
        ("/v1/responses", ["refuse", "interrupt"]),
    ],
)
def test_the_document_names_what_each_protocol_can_do(http, path, values):
    operation = http.get("/api/v1/openapi.json").json()["paths"][path]["post"]
    (header,) = [each for each in operation["parameters"] if each["name"] == "X-Mochi-When-Busy"]
    assert values in [
        each.get("enum") for each in header["schema"].get("anyOf", [header["schema"]])
    ]


def test_a_response_ends_the_one_before_it(server, http):
    server.script(STUCK, "The second.")
    conversation = http.post("/v1/conversations", json={}).json()["id"]
    body = {"model": MODEL, "conversation": conversation, "stream": True, "input": "Hello"}
    begun = threading.Event()

    def first() -> None:
        with streaming(http, "/v1/responses", body) as events:
            for event in events:
                if event["type"] == "response.output_text.delta":
                    begun.set()

    running = threading.Thread(target=first)
    running.start()
    assert begun.wait(60)
    second = {**body, "stream": False, "input": "And?"}
    assert http.post("/v1/responses", json=second).status_code == 409
    headers = {"X-Mochi-When-Busy": "queue"}
    refused = http.post("/v1/responses", json=second, headers=headers)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "X-Mochi-When-Busy")
    headers = {"X-Mochi-When-Busy": "interrupt"}
    answer = http.post("/v1/responses", json=second, headers=headers)
    running.join()
    assert answer.status_code == 200, answer.text
    assert answer.json()["output"][-1]["content"][0]["text"] == "The second."
