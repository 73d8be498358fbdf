"""Traces of a real server: received by OTLP, joined to those of callers, passed on to others."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripted_app.thread import ScriptedModelThread
from tests.functional.usage.receiver import Receiver, receiving, serving_mcp, values
from tests.unit.usage_app.traces.servers import McpServer

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
INTERNAL, CLIENT = 1, 3


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


@pytest.fixture(scope="module")
def models() -> Iterator[ScriptedModelThread]:
    thread = ScriptedModelThread()
    thread.start()
    yield thread
    thread.stop()


@pytest.fixture(scope="module")
def mcp() -> Iterator[McpServer]:
    with serving_mcp() as server:
        yield server


@pytest.fixture(scope="module")
def server(
    start_once: Callable[..., Any],
    receiver: Receiver,
    models: ScriptedModelThread,
    mcp: McpServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """Return a server that traces, with a vendor and an MCP server that note what they get."""
    config = tmp_path_factory.mktemp("mcp") / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"small": {"url": mcp.url}}}))
    url = models.server.url
    return start_once(
        MOCHI_OLLAMA_HOST=url,
        MOCHI_PROVIDERS__MINE__BASE_URL=f"{url}/v1",
        MOCHI_MCP_CONFIG_PATH=str(config),
        MOCHI_TRACES="true",
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
        OTEL_EXPORTER_OTLP_HEADERS="x-project=blue",
        OTEL_RESOURCE_ATTRIBUTES="team=red",
        OTEL_BSP_SCHEDULE_DELAY="50",
    )


def by_name(spans: Any) -> dict[str, Any]:
    return {f"{span.name} {span.kind}": span for span in spans}


def sent_by(models: ScriptedModelThread) -> str:
    _, headers = models.server.heads[-1]
    return headers["traceparent"]


def test_a_turn_joins_the_trace_of_its_request_and_its_vendor_is_told(
    server: Any, chat: Any, script: Any, receiver: Receiver, models: ScriptedModelThread
) -> None:
    session_id = chat.new_session(model="mine:gpt-5.1")
    body = {"message": script("Hello!")}

    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "mine=1"}

    chat.http.post(f"/chat/{session_id}", json=body, headers=headers).raise_for_status()

    spans = by_name(receiver.turn(session_id))
    turn, call = spans[f"chat mine:gpt-5.1 {INTERNAL}"], spans[f"chat gpt-5.1 {CLIENT}"]
    assert (turn.trace_id.hex(), turn.parent_span_id.hex()) == (TRACE, PARENT)
    assert call.parent_span_id == turn.span_id
    assert sent_by(models) == f"00-{TRACE}-{call.span_id.hex()}-01"
    assert models.server.heads[-1][1]["tracestate"] == "mine=1"
    attributes = values(call.attributes)
    assert attributes["server.port"] == int(models.server.url.rsplit(":", 1)[1])
    assert attributes["gen_ai.usage.output_tokens"] > 0


def test_the_resource_says_which_server_it_is_and_headers_are_sent(
    server: Any, chat: Any, script: Any, receiver: Receiver
) -> None:
    session_id = chat.new_session()
    chat.say(session_id, script("Hello!"))
    receiver.turn(session_id)

    resource = receiver.resources[-1]
    assert (resource["service.name"], resource["team"]) == ("mochi-server", "red")
    assert resource["service.version"]
    assert receiver.headers[-1][":path"] == "/v1/traces"
    assert {name.lower(): it for name, it in receiver.headers[-1].items()}["x-project"] == "blue"


@pytest.mark.parametrize(
    "parent", ["nonsense", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{PARENT}-01"]
)
def test_a_malformed_parent_is_ignored(
    chat: Any, script: Any, receiver: Receiver, parent: str
) -> None:
    session_id = chat.new_session()
    answer = chat.http.post(
        f"/chat/{session_id}", json={"message": script("Hi!")}, headers={"traceparent": parent}
    )

    assert answer.status_code == 200
    turn = next(span for span in receiver.turn(session_id) if span.kind == INTERNAL)
    assert turn.parent_span_id == b""
    assert turn.trace_id.hex() != TRACE


def test_openais_protocol_joins_traces_too(
    server: Any, chat: Any, script: Any, receiver: Receiver, models: ScriptedModelThread
) -> None:
    trace, parent = "1" * 32, "1" * 16
    body = {"model": "qwen3:14b", "messages": [{"role": "user", "content": script("Hello!")}]}

    answer = chat.http.post(
        f"{server.url}/v1/chat/completions",
        json=body,
        headers={"traceparent": f"00-{trace}-{parent}-01"},
    )

    assert answer.status_code == 200
    spans = receiver.trace_with(lambda span: span.parent_span_id.hex() == parent)
    turn = next(span for span in spans if span.parent_span_id.hex() == parent)
    calls = [span.span_id.hex() for span in spans if span.parent_span_id == turn.span_id]
    assert [sent_by(models).split("-")[2]] == calls


def test_an_mcp_server_is_told_of_its_call(
    chat: Any, script: Any, receiver: Receiver, mcp: McpServer
) -> None:
    tools = {"tools": ["small__run"], "execution_policy": "never_confirm"}
    session_id = chat.new_session(tool_settings=tools)
    call = {"tool_call": [{"name": "small__run", "args": {}}]}

    chat.say(session_id, script(call, "Ran.", per_request=True))

    spans = by_name(receiver.turn(session_id))
    run = spans[f"execute_tool small__run {CLIENT}"]
    ((message, headers),) = mcp.calls()
    told = headers["traceparent"].split("-")
    assert told[1:3] == [run.trace_id.hex(), run.span_id.hex()]
    assert message["params"]["_meta"]["traceparent"] == headers["traceparent"]


def test_a_turn_that_goes_on_after_its_client_has_left_is_of_its_trace(
    chat: Any, script: Any, receiver: Receiver, models: ScriptedModelThread
) -> None:
    session_id, trace, parent = chat.new_session(), "2" * 32, "2" * 16
    message = script("First,", " last.", words_per_second=0, stall_seconds=0.2, stall_after=1)
    body = {"message": message, "detached": True}
    with chat.http.stream(
        "POST",
        f"/chat/{session_id}/stream",
        json=body,
        headers={"traceparent": f"00-{trace}-{parent}-01"},
    ) as answer:
        assert answer.status_code == 200

    turn = next(span for span in receiver.turn(session_id) if span.parent_span_id.hex() == parent)
    assert values(turn.attributes)["mochi.turn.state"] == "completed"


def test_lines_of_the_log_name_the_span_that_they_belong_to(
    server: Any, chat: Any, script: Any, receiver: Receiver
) -> None:
    session_id = chat.new_session()
    chat.say(session_id, script("Hello!"))
    turn = next(span for span in receiver.turn(session_id) if span.kind == INTERNAL)

    line = json.loads(line_about(server.log, session_id, "turn ended"))

    assert (line["trace_id"], line["span_id"]) == (turn.trace_id.hex(), turn.span_id.hex())


def line_about(log: Path, session_id: str, event: str) -> str:
    """Wait for a line of the log; its span may have been received before it was written."""
    deadline = time.monotonic() + 60
    while True:
        for line in log.read_text().splitlines(keepends=True):
            if session_id in line and event in line and line.endswith("\n"):
                return line
        assert time.monotonic() < deadline, f"{event!r} was not logged"
        time.sleep(0.02)
