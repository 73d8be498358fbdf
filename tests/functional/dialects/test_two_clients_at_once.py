"""Two requests that continue the same conversation at once: neither sees what the other said."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply
from tests.functional.conftest import NO_TLS
from tests.functional.dialects.conftest import ServeOnce

PAIRS = 12


@pytest.fixture(scope="module")
def shared(serve_once: ServeOnce) -> MochiServer:
    return serve_once("--workers", "2")


@pytest.fixture
def server(shared: MochiServer) -> MochiServer:
    shared.reset()
    return shared


def at_once(server: MochiServer, path: str, bodies: list[Any]) -> list[httpx.Response]:
    """Send requests at the same time, each over a connection of its own."""

    def send(body: Any) -> httpx.Response:
        return httpx.post(
            f"{server.url}{path}", json=body, trust_env=False, verify=NO_TLS, timeout=60
        )

    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(send, bodies))


def sent_with(server: MochiServer, text: str) -> list[str]:
    """Return what the user said in the request to the model that ends with a text."""
    [request] = [each for each in server.model_requests if each["messages"][-1]["content"] == text]
    return [each["content"] for each in request["messages"] if each["role"] == "user"]


def test_two_responses_to_the_same_one_branch_and_neither_sees_the_others_input(server):
    for number in range(PAIRS):
        [first] = at_once(server, "/v1/responses", [{"model": MODEL, "input": f"Hello {number}"}])
        texts = [f"This {number}", f"That {number}"]
        bodies = [{"input": text, "previous_response_id": first.json()["id"]} for text in texts]
        answers = at_once(server, "/v1/responses", bodies)
        assert [answer.status_code for answer in answers] == [200, 200], answers[-1].text
        for text in texts:
            assert sent_with(server, text) == [f"Hello {number}", text]


def test_of_two_tabs_of_a_thread_one_is_told_that_its_conversation_differs(server):
    for number in range(PAIRS):
        thread = f"thread-{number}"
        hello = {"id": f"hello-{number}", "role": "user", "content": f"Hello {number}"}
        props = {"model": MODEL}

        def run(*said: Any, thread: str = thread, props: Any = props) -> dict[str, Any]:
            return {
                "threadId": thread,
                "runId": "run",
                "messages": list(said),
                "forwardedProps": props,
            }

        [first] = at_once(server, "/api/v1/agui", [run(hello)])
        assert first.status_code == 200, first.text
        lines = first.text.splitlines()
        [begun] = [line for line in lines if '"TEXT_MESSAGE_START"' in line]
        name = json.loads(begun.removeprefix("data: "))["messageId"]
        answer = {"id": name, "role": "assistant", "content": "Hello!"}
        said = [
            {"id": f"{text}-{number}", "role": "user", "content": text} for text in ("This", "That")
        ]
        tabs = [run(hello, answer, message) for message in said]
        answers = at_once(server, "/api/v1/agui", tabs)
        assert sorted(each.status_code for each in answers) == [200, 409], answers
        [refused] = [each for each in answers if each.status_code == 409]
        assert refused.json()["error"]["code"] in ("CHAT_DIFFERS", "SESSION_BUSY")


def test_a_run_that_is_not_detached_stops_with_its_connection(server):
    """CopilotKit's Stop only closes the connection."""
    server.script(Reply("A long answer to this.", stall_seconds=600, stall_after=2), "Another one.")
    body = {
        "threadId": "stopped",
        "runId": "run",
        "messages": [{"id": "u1", "role": "user", "content": "Hello"}],
        "forwardedProps": {"model": MODEL, "detached": False},
    }
    url = f"{server.url}/api/v1/agui"
    with (
        httpx.Client(trust_env=False, verify=NO_TLS, timeout=60) as client,
        client.stream("POST", url, json=body) as stream,
    ):
        next(line for line in stream.iter_lines() if "TEXT_MESSAGE_CONTENT" in line)
    body["messages"].append({"id": "u2", "role": "user", "content": "Again"})
    deadline = time.monotonic() + 30
    while (answer := at_once(server, "/api/v1/agui", [body])[0]).status_code == 409:
        assert answer.json()["error"]["code"] == "SESSION_BUSY", answer.text
        assert time.monotonic() < deadline
    assert (answer.status_code, "Another one." in answer.text) == (200, True), answer.text
