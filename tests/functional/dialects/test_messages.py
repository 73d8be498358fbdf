"""Anthropic's protocol over HTTP: streams, errors, tokens, and what is left of a killed worker."""

import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import httpx
import pytest

from dialects_app.shared.client_sessions import session_id_of
from mochi_server.testing import MODEL, MochiServer
from tests.functional.conftest import NO_TLS, Server, StartServer, block
from tests.functional.dialects.conftest import ServeOnce
from tests.functional.dialects.connecting import http_at
from tests.unit.sessions_app.attachments.images import png

VERSION = {"anthropic-version": "2026-10-21"}
READ = {"name": "Read", "input_schema": {"$schema": "https://x", "type": "object"}}
SLOW = block(["One ", "two ", "three"], stall_after=2, stall_seconds=600)


def body(text: str = "Hello!", **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": MODEL, "max_tokens": 1000, "messages": messages, **fields}


def post(server: Server | MochiServer, path: str = "", **options: Any) -> httpx.Response:
    url = f"{server.url}/v1/messages{path}"
    return httpx.post(url, trust_env=False, verify=NO_TLS, timeout=60, **options)


def told(answer: httpx.Response) -> Iterator[Any]:
    """Yield the data of a stream's events as they come."""
    assert answer.status_code == 200, answer.read()
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def text_in(event: Any) -> str:
    return str(event["delta"].get("text", "")) if event["type"] == "content_block_delta" else ""


@pytest.fixture(scope="module")
def house(serve_once: ServeOnce) -> MochiServer:
    """Return a server whose models are scripted, with a token and aliases."""
    return serve_once(
        MOCHI_API_TOKEN="a-token-for-every-client",
        MOCHI_MODEL_ALIASES=f"claude-*={MODEL}",
        MOCHI_CLIENT_SESSIONS="claude-code",
    )


@pytest.fixture
def key() -> dict[str, str]:
    return {"x-api-key": "a-token-for-every-client", **VERSION}


def test_one_right_token_of_two_is_enough(house: MochiServer, key: dict[str, str]) -> None:
    answer = post(house, json=body(), headers={**key, "authorization": "Bearer other"})
    assert answer.status_code == 200
    assert answer.headers["request-id"].startswith("req_")


def test_a_refusal_of_the_guard_has_the_shape_of_the_protocol(house: MochiServer) -> None:
    refused = post(house, json=body())
    assert refused.status_code == 401
    assert refused.json()["error"]["type"] == "authentication_error"
    assert refused.headers["request-id"] == refused.json()["request_id"]


def test_an_alias_answers_under_the_name_that_was_asked_for(
    house: MochiServer, key: dict[str, str]
) -> None:
    asked = body("Good morning", model="claude-opus-5-5")
    message = post(house, json=asked, headers=key).json()
    assert message["model"] == "claude-opus-5-5"
    assert message["content"][-1]["text"].endswith("Good morning")


def test_models_have_anthropics_shape_for_its_clients_alone(
    house: MochiServer, key: dict[str, str]
) -> None:
    def get(path: str, headers: dict[str, str]) -> Any:
        url = f"{house.url}/v1/models{path}"
        return httpx.get(url, headers=headers, trust_env=False, verify=NO_TLS, timeout=30).json()

    page = get("?limit=1", key)
    assert (page["data"][0]["type"], page["has_more"]) == ("model", True)
    assert get(f"/{MODEL}", key)["display_name"] == MODEL
    assert get("/nope", key)["error"]["type"] == "not_found_error"
    assert get("?after_id=nope", key)["error"]["type"] == "invalid_request_error"
    assert get("?limit=0", key)["error"]["type"] == "invalid_request_error"
    assert get("", VERSION)["error"]["type"] == "authentication_error"
    assert get("/../nothing", key)["error"]["type"] == "not_found_error"
    del key["anthropic-version"]
    assert get("", key)["object"] == "list"


def test_tokens_are_counted_with_tools_and_without_a_model(
    house: MochiServer, key: dict[str, str]
) -> None:
    def count(**fields: Any) -> int:
        asked = {**body(), **fields}
        del asked["max_tokens"]
        answer = post(house, "/count_tokens", json=asked, headers=key)
        return int(answer.json()["input_tokens"])

    calls = len(house.model_requests)
    plain = count()
    assert count(system="You help. " * 100) > plain + 200
    assert count(tools=[{**READ, "description": "Reads a file. " * 100}]) > plain + 200
    assert len(house.model_requests) == calls


def test_images_are_counted_and_neither_stored_nor_fetched(
    house: MochiServer, key: dict[str, str]
) -> None:
    def count(*sources: Any) -> int:
        images = [{"type": "image", "source": source} for source in sources]
        said = {"role": "user", "content": images or "Hi"}
        asked = {"model": "scripted-vision", "messages": [said]}
        answer = post(house, "/count_tokens", json=asked, headers=key)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["input_tokens"])

    inline = {"type": "base64", "media_type": "image/png", "data": b64encode(png(3, 2)).decode()}
    remote = {"type": "url", "url": "http://127.0.0.1:9/cat.png"}
    assert count() + 100 < count(inline) < count(inline, remote)
    files = [path for path in house.data_dir.rglob("*") if path.is_file()]
    assert all(path.read_bytes() != png(3, 2) for path in files)


def test_the_draft_of_a_schema_is_not_sent_to_the_model(
    house: MochiServer, key: dict[str, str]
) -> None:
    post(house, json=body(tools=[READ]), headers=key)
    [tool] = house.model_requests[-1]["tools"]
    assert "$schema" not in tool["function"]["parameters"]


def test_what_the_model_is_sent_is_equal_although_the_line_about_billing_changed(
    house: MochiServer, key: dict[str, str]
) -> None:
    sent = []
    for version in ("2.1.332.902", "2.1.333.17"):
        billing = {"type": "text", "text": f"x-anthropic-billing-header: cc_version={version};"}
        system = [billing, {"type": "text", "text": "You are Claude Code."}]
        post(house, json=body(system=system), headers=key)
        sent.append(house.model_requests[-1]["messages"])
    assert sent[0] == sent[1]


def test_reasoning_comes_back_to_the_model_from_its_seal(
    house: MochiServer, key: dict[str, str]
) -> None:
    script = block(
        {"text_message": {"text": "", "reasoning": "It is in the file."}},
        {"tool_call": [{"name": "Read", "args": {"path": "a"}}]},
    )
    thinking = {"type": "adaptive", "display": "omitted"}
    asked = body(script, tools=[READ], thinking=thinking)
    answer = post(house, json=asked, headers=key).json()
    assert [part["type"] for part in answer["content"]] == ["thinking", "tool_use"]
    assert (answer["content"][0]["thinking"], answer["stop_reason"]) == ("", "tool_use")
    result = {"type": "tool_result", "tool_use_id": answer["content"][1]["id"], "content": "42"}
    asked["messages"] += [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [result]},
    ]
    assert post(house, json=asked, headers=key).status_code == 200
    [said] = [each for each in house.model_requests[-1]["messages"] if each.get("tool_calls")]
    assert said["thinking"] == "It is in the file."


def test_a_model_without_tools_is_named_and_none_is_dropped(
    house: MochiServer, key: dict[str, str]
) -> None:
    refused = post(house, json=body(tools=[READ], model="scripted-plain"), headers=key)
    assert (refused.status_code, refused.headers["x-should-retry"]) == (400, "false")
    assert "can't call tools" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fault", "status", "kind", "retries"),
    [
        ({"status": 503}, 503, "overloaded_error", None),
        ({"status": 429}, 429, "rate_limit_error", None),
        ({"status": 400}, 502, "api_error", "false"),
    ],
)
def test_a_providers_failure_says_whether_to_try_again(
    house: MochiServer, key: dict[str, str], fault: Any, status: int, kind: str, retries: Any
) -> None:
    answer = post(house, json=body(block("No.", **fault), stream=True), headers=key)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
    assert answer.headers.get("x-should-retry") == retries


def test_an_error_within_a_stream_ends_it_without_a_stop(
    house: MochiServer, key: dict[str, str]
) -> None:
    script = block(["One ", "two"], error_line=1)
    answer = post(house, json=body(script, stream=True), headers=key)
    events = list(told(answer))
    assert [events[0]["type"], events[-1]["type"]] == ["message_start", "error"]
    assert "message_stop" not in [event["type"] for event in events]


def test_a_busy_session_is_tried_again_after_a_second(
    house: MochiServer, key: dict[str, str]
) -> None:
    http = httpx.Client(base_url=house.url, headers=key, trust_env=False, verify=NO_TLS, timeout=60)
    with closing(http):
        session = http.post("/api/v1/sessions", json={"model": MODEL}).json()["session_id"]
        headers = {"x-mochi-session-id": session}
        asked = body(SLOW, stream=True)
        with http.stream("POST", "/v1/messages", json=asked, headers=headers) as running:
            events = told(running)
            next(events)
            assert running.headers["x-mochi-session-id"] == session
            busy = http.post("/v1/messages", json=body(), headers=headers)
        assert (busy.status_code, busy.headers.get("retry-after")) == (429, "1"), busy.text
        assert busy.json()["error"]["type"] == "rate_limit_error"


CONVERSATION = "x-claude-code-session-id"


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def texts_in(house: MochiServer, key: dict[str, str], title: str, count: int) -> list[str]:
    """Wait until the session with a title has so many messages; return their texts."""
    url = f"{house.url}/api/v1/sessions"
    texts: list[str] = []
    deadline = time.monotonic() + 60
    with httpx.Client(headers=key, trust_env=False, verify=NO_TLS, timeout=30) as http:
        while len(texts) < count and time.monotonic() < deadline:
            for session in http.get(url).json()["sessions"]:
                if session.get("title") == title:
                    found = http.get(f"{url}/{session['session_id']}/messages").json()
                    texts = [message["content"] for message in found["messages"]]
    return texts


def test_claude_codes_conversation_is_saved_as_a_session_that_only_grows(
    house: MochiServer, key: dict[str, str]
) -> None:
    headers = {**key, CONVERSATION: "6f9619ff-8b86-4d01"}
    question, reminder = "What is the capital of Norway?", "<system-reminder>Now.</system-reminder>"
    blocks = [{"type": "text", "text": text} for text in (reminder, question)]
    house.script("Oslo", "Oslo.", "Stockholm.", "Helsinki.")
    for _ in range(2):  # Claude Code repeats requests
        first = body(messages=[{"role": "user", "content": blocks}], tools=[READ])
        assert post(house, json=first, headers=headers).status_code == 200
    words = f"{reminder} was shown to me: why?"
    compacted = [said("The capital of Norway is Oslo."), said(words)]
    calls_none = {"tools": [READ], "tool_choice": {"type": "none"}}
    post(house, json=body(messages=compacted, **calls_none), headers=headers)
    begun = [*compacted, said("Stockholm.", "assistant"), said("And?"), said("It is ", "assistant")]
    post(house, json=body(messages=begun, tools=[READ]), headers=headers)

    assert texts_in(house, key, question, 7) == [
        *(question, "Oslo.", "The capital of Norway is Oslo.", words, "Stockholm."),
        *("And?", "It is Helsinki."),
    ]


def test_what_waits_for_the_turn_of_a_person_is_saved_when_the_server_stops(
    start: StartServer,
) -> None:
    server = start(MOCHI_CLIENT_SESSIONS="claude-code", MOCHI_SHUTDOWN_GRACE_SECONDS="0")
    headers, session = {CONVERSATION: "c1"}, session_id_of("claude-code:c1")
    one = body(messages=[said("One.")], tools=[READ])
    begun = [
        said("One."),
        said(post(server, json=one, headers=headers).json()["content"][0]["text"], "assistant"),
    ]
    native = server.chat()
    deadline = time.monotonic() + 60
    while native.http.get(f"/sessions/{session}").status_code == 404:
        assert time.monotonic() < deadline
    with native.stream(session, message=SLOW) as events:
        next(events)
        two = body(messages=[*begun, said("Two.")], tools=[READ])
        assert post(server, json=two, headers=headers).status_code == 200
        server.stop()
    texts = [message["content"] for message in server.session_file(session)["messages"]]
    assert (texts[0], texts[2], texts[4]) == ("One.", SLOW, "Two.")
    assert len(texts) == 6


def test_a_client_that_leaves_closes_the_models_connection(
    house: MochiServer, key: dict[str, str]
) -> None:
    with (
        httpx.Client(trust_env=False, verify=NO_TLS, timeout=60) as http,
        http.stream(
            "POST", f"{house.url}/v1/messages", json=body(SLOW, stream=True), headers=key
        ) as answer,
    ):
        events = told(answer)
        next(events)
        turn_id = answer.headers["request-id"].removeprefix("req_")
    lines: list[str] = []
    deadline = time.monotonic() + 60
    while not lines and time.monotonic() < deadline:
        calls = [line for line in house.log.splitlines() if "model called" in line]
        lines = [line for line in calls if turn_id in line]
    assert json.loads(lines[0])["outcome"] == "cancelled"


@pytest.fixture(scope="module")
def two_workers(start_once: StartServer) -> Server:
    return start_once("--workers", "2")


def test_who_follows_a_killed_turn_sees_what_was_streamed_and_an_error(
    two_workers: Server,
) -> None:
    server = two_workers
    running = min(server.web_processes, key=lambda worker: worker.pid)
    with ExitStack() as stack:
        here, there, native = (
            stack.enter_context(closing(http_at(server, at))) for at in (0, 1, 1)
        )
        session = native.post("/sessions", json={"model": MODEL}).json()["session_id"]
        headers = {"idempotency-key": "one-turn", "x-mochi-session-id": session}
        url, asked = f"{server.url}/v1/messages", body(SLOW, stream=True)
        begun = told(stack.enter_context(here.stream("POST", url, json=asked, headers=headers)))
        seen = until_said(begun)
        again = told(stack.enter_context(there.stream("POST", url, json=asked, headers=headers)))
        assert until_said(again) == seen

        running.kill()

        *_, error = again
    assert (error["type"], error["error"]["mochi_code"]) == ("error", "TURN_INTERRUPTED")
    events = list(server.chat().reattach(session))
    shown = "".join(each.data["content"] for each in events if each.name == "content_delta")
    assert shown == "".join(map(text_in, seen)) == "One two"


def until_said(
    stream: Iterator[Any], is_end: Callable[[str], bool] = "One two".__eq__
) -> list[Any]:
    """Read on until everything was said that the model says."""
    seen: list[Any] = []
    while not is_end("".join(map(text_in, seen))):
        seen.append(next(stream))
    return seen
