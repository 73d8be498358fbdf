"""NaN and infinite numbers of models and tools, which reach no client as such."""

import json
import uuid
from collections.abc import Iterator
from typing import Any, NoReturn

import httpx
import pytest

from tests.functional.conftest import NO_TLS, Server, StartServer, block

MODEL = "openai:gpt-5.1"
TOOL = '''
"""A tool that returns what it gets, and numbers of Python."""

__all__ = ["measure"]


def measure(values: list[float | str]) -> dict[str, object]:
    """Measure it.

    Args:
        values: The values.
    """
    return {"values": values, "nan": float("nan"), "low": float("-inf")}
'''
ARGUMENTS = ['{"values": [1.5, N', "aN, -Infin", "ity, 1e9", "99]}"]
VALUES = [1.5, "NaN", "-Infinity", "1e999"]


def chunk(**delta: Any) -> str:
    value = {"choices": [{"index": 0, "delta": delta}], "usage": {"completion_tokens": "@"}}
    return f"data: {json.dumps(value)}\n\n".replace('"@"', "NaN")


def asking(name: str) -> str:
    """Return a message that is answered by a call with such numbers."""
    call = {"index": 0, "id": "call_1", "function": {"name": name, "arguments": ""}}
    pieces = [{"index": 0, "function": {"arguments": piece}} for piece in ARGUMENTS]
    raw = [chunk(tool_calls=[each]) for each in (call, *pieces)]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    return block(raw=[*raw, f"data: {json.dumps(end)}\n\n", "data: [DONE]\n\n"])


def refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not JSON")


def strict(text: str) -> Any:
    return json.loads(text, parse_constant=refuse)


def events(answer: httpx.Response) -> list[Any]:
    """Return the data of a stream, each of which is JSON for any parser."""
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if "data: " in line]
    return [strict(line) for line in lines if line != "[DONE]"]


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Server:
    server = start_once(OPENAI_API_KEY="sk-test", MOCHI_PROVIDERS__OPENAI__API="chat")
    (server.data_dir / "tools").mkdir(exist_ok=True)
    (server.data_dir / "tools" / "measures.py").write_text(TOOL)
    return server


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False, verify=NO_TLS) as client:
        yield client


@pytest.fixture
def session_id(http: httpx.Client) -> str:
    policy = {"tools": ["measure"], "execution_policy": "never_confirm"}
    made = http.post("/api/v1/sessions", json={"model": MODEL, "tool_settings": policy})
    session_id: str = made.json()["session_id"]
    return session_id


def test_events_sessions_and_exports_have_them_as_text(http: httpx.Client, session_id: str) -> None:
    url = f"/api/v1/chat/{session_id}/stream"
    told = events(http.post(url, json={"message": asking("measure")}))
    results = [event for event in told if "success" in event and "nan" in str(event)]
    assert results, told
    session = strict(http.get(f"/api/v1/sessions/{session_id}").text)
    (call,) = [call for each in session["messages"] for call in each.get("tool_calls") or ()]
    assert call["function"]["arguments"] == {"values": VALUES}
    (result,) = [each for each in session["messages"] if each["role"] == "tool"]
    assert strict(result["content"]) == {"values": VALUES, "nan": "NaN", "low": "-Infinity"}
    for form in ("json", "markdown"):
        exported = http.get(f"/api/v1/sessions/{session_id}/export", params={"format": form})
        assert "NaN," not in exported.text.replace('"NaN",', "")
    strict(http.get(f"/api/v1/sessions/{session_id}/export", params={"format": "json"}).text)
    strict(http.get("/api/v1/usage").text)


@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_s_call_is_json_for_its_client(http: httpx.Client, stream: bool) -> None:
    tool = {"type": "function", "function": {"name": "weigh", "parameters": {"type": "object"}}}
    said = [{"role": "user", "content": asking("weigh")}]
    body = {"model": MODEL, "messages": said, "tools": [tool], "stream": stream}
    answer = http.post("/v1/chat/completions", json=body)
    if stream:
        deltas = [each["choices"][0]["delta"] for each in events(answer) if each["choices"]]
        calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
        written = "".join(call["function"].get("arguments") or "" for call in calls)
    else:
        (call,) = strict(answer.text)["choices"][0]["message"]["tool_calls"]
        written = call["function"]["arguments"]
    assert strict(written) == {"values": VALUES}


def test_a_response_s_call_is_json_for_its_client(http: httpx.Client) -> None:
    tool = {"type": "function", "name": "weigh", "parameters": {"type": "object"}}
    body = {"model": MODEL, "input": asking("weigh"), "tools": [tool], "stream": True}
    told = events(http.post("/v1/responses", json=body))
    pieces = [each["delta"] for each in told if each["type"].endswith("arguments.delta")]
    (done,) = [each["arguments"] for each in told if each["type"].endswith("arguments.done")]
    assert strict("".join(pieces)) == strict(done) == {"values": VALUES}


def test_pages_get_them_as_text(http: httpx.Client, session_id: str) -> None:
    message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": asking("measure")}]}
    events(http.post("/api/v1/ui/chat", json={"id": session_id, "messages": [message]}))
    strict(http.get(f"/api/v1/ui/chat/{session_id}").text or "null")


def test_runs_of_agui_get_them_as_text(http: httpx.Client) -> None:
    run = {
        "threadId": uuid.uuid4().hex,
        "runId": "r",
        "state": {},
        "messages": [{"id": "m", "role": "user", "content": asking("measure")}],
        "tools": [],
        "context": [],
        "forwardedProps": {"model": MODEL, "selectedTools": ["measure"]},
    }
    told = events(http.post("/api/v1/agui", json=run))
    written = [each["delta"] for each in told if each["type"] == "TOOL_CALL_ARGS"]
    assert strict("".join(written)) == {"values": VALUES}
