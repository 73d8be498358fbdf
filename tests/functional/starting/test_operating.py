"""What operators use: readiness, the access log, a path below a proxy's."""

import json
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.functional.starting.conftest import clean_environment
from tests.functional.starting.terminal import Terminal
from tests.redis_server import running_redis

pytestmark = pytest.mark.slow

Start = Callable[..., Any]

TEST_MODE = {"MOCHI_TEST_MODE": "true", "MOCHI_TEST_WORDS_PER_SECOND": "0"}
QUESTION = {"model": "qwen3:14b", "message": "Hi"}


def test_a_server_that_takes_requests_is_ready(start: Start) -> None:
    server = start(**TEST_MODE, MOCHI_API_TOKEN="secret")  # which probes do not have

    assert server.get("/api/v1/health/ready").json() == {"status": "ready"}


def test_at_a_terminal_a_turn_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mochi_server", "--port", "0"]
    terminal = Terminal(command, cwd=tmp_path, env=clean_environment(**TEST_MODE))
    try:
        terminal.read_until("listening on ")
        url = terminal.read_until("\r\n")
        terminal.read_until("CTRL-C\r\n")
        answer = httpx.post(f"{url}/api/v1/chat", json=QUESTION, timeout=60, trust_env=False)
        session_id = answer.json()["session_id"]
        line = terminal.read_until(f"{session_id}")
    finally:
        terminal.close()

    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[info\] "
        r"qwen3:14b: \d+\.\d s, [\d,]+ tokens in, [\d,]+ out session_id=",
        line,
    )


def test_a_server_that_is_about_to_stop_lives_and_is_not_ready(start: Start) -> None:
    server = start(**TEST_MODE)
    stall = '<|instruction_start|>{"stall_seconds": 3000}<|instruction_end|>'
    url = f"{server.url}/api/v1/chat/stream"
    with httpx.stream(
        "POST", url, json={**QUESTION, "message": stall}, timeout=60, trust_env=False
    ) as stream:
        assert stream.status_code == 200  # the turn runs, and would for 600 s more
        server.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        while (answer := server.get("/api/v1/health/ready")).status_code == 200:
            assert time.monotonic() < deadline

        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "SHUTTING_DOWN"
        assert answer.headers["retry-after"]
        assert server.get("/api/v1/health").json()["status"] == "ok"
    server.stop(signal.SIGTERM)


def test_a_server_that_can_not_write_lives_and_is_not_ready(start: Start, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    server = start(**TEST_MODE, MOCHI_DATA_DIR=str(data_dir))
    state, away = data_dir / ".mochi", data_dir / "away"
    state.rename(away)
    state.touch()
    try:
        answer = server.get("/api/v1/health/ready")
        assert answer.status_code == 503
        error = answer.json()["error"]
        assert error["code"] == "STORAGE_UNAVAILABLE"
        not_ready = error["details"]["not_ready"]
        assert not_ready == [{"code": error["code"], "message": error["message"]}]
        stranger = {"X-Forwarded-For": "203.0.113.7"}
        told = server.get("/api/v1/health/ready", **stranger).json()["error"]
        assert (told["code"], "not_ready" in told["details"]) == (error["code"], False)
        assert str(tmp_path) not in told["message"]
        assert server.get("/api/v1/health").json()["status"] == "ok"
    finally:
        state.unlink()
        away.rename(state)
    assert server.get("/api/v1/health/ready").status_code == 200


def test_a_server_whose_journal_takes_no_writes_lives_and_is_not_ready(start: Start) -> None:
    with running_redis("--appendonly", "no") as url, redis.Redis.from_url(url) as client:
        server = start(**TEST_MODE, MOCHI_JOURNAL_URL=url, MOCHI_SECRET_KEY="0" * 32)
        client.config_set("min-replicas-to-write", 1)
        wait_until_ready_is(server, 503, "STORAGE_UNAVAILABLE")
        assert server.get("/api/v1/health").json()["journal"] == "unwritable"
        client.config_set("min-replicas-to-write", 0)
        client.config_set("maxmemory", 1)
        wait_until_ready_is(server, 507, "STORAGE_FULL")
        assert server.get("/api/v1/health").json()["journal"] == "full"
        client.config_set("maxmemory", 0)
        wait_until_ready_is(server, 200)


def wait_until_ready_is(server: Any, status: int, code: str = "") -> None:
    deadline = time.monotonic() + 30  # an answer holds for a moment
    while (answer := server.get("/api/v1/health/ready")).status_code != status:
        assert time.monotonic() < deadline, answer.text
    assert not code or answer.json()["error"]["code"] == code


def test_a_server_that_can_not_reach_its_journal_lives_and_is_not_ready(start: Start) -> None:
    with running_redis("--appendonly", "no") as url:
        server = start(**TEST_MODE, MOCHI_JOURNAL_URL=url, MOCHI_SECRET_KEY="0" * 32)
        assert server.get("/api/v1/health").json()["journal"] == "ok"
        assert server.get("/api/v1/health").json()["sessions"] == "files"
        assert server.get("/api/v1/health/ready").status_code == 200

    deadline = time.monotonic() + 30  # an answer holds for a moment
    while (answer := server.get("/api/v1/health/ready")).status_code == 200:
        assert time.monotonic() < deadline
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "STORAGE_UNAVAILABLE"
    health = server.get("/api/v1/health")
    assert health.status_code == 200
    assert health.json()["status"] == "ok"
    assert health.json()["journal"] == "unreachable"


def lines_of(server: Any, count: int) -> list[dict[str, Any]]:
    """Wait for the lines of the access log, which come after the answers."""
    deadline = time.monotonic() + 30
    while True:
        lines = [json.loads(line) for line in server.stderr.splitlines() if line.startswith("{")]
        found = [line for line in lines if line["logger"] == "mochi_project.http.access_log"]
        if len(found) >= count or time.monotonic() > deadline:
            return found


def test_the_access_log_has_a_line_for_each_request(start: Start) -> None:
    server = start(**TEST_MODE, MOCHI_ACCESS_LOG="true", MOCHI_LOG_FORMAT="json")

    server.get("/api/v1/sessions?q=secret+words")
    server.get("/no%0Awhere")
    server.get("/api/v1/sessions", Host="evil.example")
    server.get("/v1/models", **{"x-request-id": "trace-1"})
    httpx.post(f"{server.url}/api/v1/chat/stream", json=QUESTION, trust_env=False).read()

    lines = lines_of(server, 5)
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("GET", "/api/v1/sessions", 200),
        ("GET", "/no%0Awhere", 404),
        ("GET", "/api/v1/sessions", 403),
        ("GET", "/v1/models", 200),
        ("POST", "/api/v1/chat/stream", 200),
    ]
    assert [line["request_id"] for line in lines if "request_id" in line] == ["trace-1"]
    assert all(line["client"] == "127.0.0.1" and line["seconds"] >= 0 for line in lines)
    assert "secret" not in server.stderr


def test_the_access_log_names_the_client_that_a_trusted_proxy_tells(start: Start) -> None:
    server = start(
        **TEST_MODE,
        MOCHI_ACCESS_LOG="true",
        MOCHI_LOG_FORMAT="json",
        MOCHI_TRUSTED_PROXIES="127.0.0.1",
    )

    server.get("/api/v1/sessions", **{"X-Forwarded-For": "192.0.2.7"})

    assert [line["client"] for line in lines_of(server, 1)] == ["192.0.2.7"]


def test_there_is_no_access_log_unless_it_is_asked_for(start: Start) -> None:
    server = start(**TEST_MODE, MOCHI_LOG_FORMAT="json")

    server.get("/api/v1/sessions")
    server.stop(signal.SIGTERM)

    assert lines_of(server, 0) == []


@pytest.mark.parametrize("says", ["the setting", "the header"])
def test_the_docs_page_works_below_a_path_of_a_proxy(start: Start, says: str) -> None:
    if says == "the setting":
        server = start(**TEST_MODE, MOCHI_ROOT_PATH="/mochi/")
        header: dict[str, str] = {}
    else:
        server = start(**TEST_MODE, MOCHI_TRUSTED_PROXIES="127.0.0.1")
        header = {"X-Forwarded-Prefix": "/mochi"}

    page = server.get("/api/v1/docs", **header).text
    assets = re.findall(r'(?:href|src)="([^"]+)"', page)
    schema = re.search(r'"url": "([^"]+)"', page)

    assert schema
    for link in (*assets, schema[1]):  # as a proxy passes them on that takes its path away
        assert link.startswith("/mochi/api/v1/")
        assert server.get(link.removeprefix("/mochi"), **header).status_code == 200
    document = server.get("/api/v1/openapi.json", **header).json()
    assert "/mochi/api/v1/sessions" in document["paths"]
    assert "401" not in document["paths"]["/mochi/api/v1/health"]["get"]["responses"]


def test_nobody_but_a_trusted_proxy_moves_the_links_of_the_docs_page(start: Start) -> None:
    server = start(**TEST_MODE)

    page = server.get("/api/v1/docs", **{"X-Forwarded-Prefix": "/evil"}).text

    assert "/evil" not in page


def test_a_path_that_is_none_stops_the_start_in_a_sentence(run: Callable[..., Any]) -> None:
    ended = run([sys.executable, "-m", "mochi_server"], MOCHI_ROOT_PATH="//evil.example")

    assert ended.returncode == 1
    assert "MOCHI_ROOT_PATH must be a path like /mochi" in ended.stderr
