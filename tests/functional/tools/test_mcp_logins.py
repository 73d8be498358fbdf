"""Logins to MCP servers: a browser comes back to any worker, also after a restart."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functional.tabs import Tab
from tests.unit.tools_app.mcp.oauth_servers import ProtectedServer, protected_in_thread

Script = Callable[..., str]


@pytest.fixture
def docs() -> Iterator[ProtectedServer]:
    """Return an MCP server that wants a login, in a thread of its own."""
    with protected_in_thread() as server:
        yield server


def configure(server: Any, docs: ProtectedServer) -> None:
    servers = {"docs": {"url": docs.url}, "<b>odd</b>": {"url": docs.url}}
    (server.data_dir / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def begin(chat: Any) -> str:
    answer = chat.http.post("/mcp/servers/docs/login")
    assert answer.status_code == 200, answer.text
    return answer.json()["authorization_url"]


def come_back(chat: Any, address: str) -> httpx.Response:
    """Send a browser back, to this worker, without a token."""
    page = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    return chat.http.get(f"/mcp/callback?{address.partition('?')[2]}", headers=page)


def log_in(chat: Any, docs: ProtectedServer) -> None:
    page = come_back(chat, docs.logins.authorize(begin(chat)))
    assert page.status_code == 200, page.text


def result_of(chat: Any, script: Script) -> dict[str, Any]:
    """Have a model call the tool; return its result."""
    settings = {"tools": ["docs__run"], "execution_policy": "never_confirm"}
    call = {"tool_call": [{"name": "docs__run", "args": {}}]}
    events = chat.say(
        chat.new_session(tool_settings=settings), script(call, "Done.", per_request=True)
    )
    assert [event.name for event in events][-1] == "done"
    [result] = [event.data for event in events if event.name == "tool_result"]
    return result


def status(chat: Any) -> dict[str, Any]:
    servers = chat.http.get("/mcp/servers").json()["servers"]
    return next(server for server in servers if server["name"] == "docs")


def test_a_login_is_begun_finished_and_used_on_any_worker(
    start: Callable[..., Any], docs: ProtectedServer, script: Script
) -> None:
    server = start("--workers", "2")
    configure(server, docs)
    one, other = (server.chat_with(process) for process in server.web_processes)
    tab = Tab(other)
    try:
        for chat in (one, other):
            assert not result_of(chat, script)["success"]  # but the turn goes on
            assert status(chat)["state"] == "needs_login"
            assert status(chat)["error"] == "It needs a login: mochi-server mcp login docs."
        url = begin(one)
        assert status(other)["login"]["url"] == begin(other) == url

        assert come_back(other, docs.logins.authorize(url)).status_code == 200

        assert result_of(one, script)["success"]
        assert result_of(other, script)["success"]
        tab.wait_until(lambda tab: tab.names.count("mcp_login") >= 3)
    finally:
        tab.leave()


def test_the_page_is_plain_and_says_how_it_ended(
    start: Callable[..., Any], docs: ProtectedServer
) -> None:
    server = start(MOCHI_API_TOKEN="hush-hush-hush", MOCHI_ACCESS_LOG="true")
    configure(server, docs)
    chat = server.chat(headers={"Authorization": "Bearer hush-hush-hush"})
    browser = server.chat()
    assert browser.http.post("/mcp/servers/docs/login").status_code == 401
    evil = docs.logins.authorize(
        begin(chat), error="access_denied", error_description="<script>alert(1)</script>"
    )

    refused = come_back(browser, evil)

    assert refused.status_code == 400
    assert "&lt;script&gt;" in refused.text
    assert "<script" not in refused.text
    assert refused.headers["cache-control"] == "no-store"
    assert refused.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in refused.headers["content-security-policy"]
    assert come_back(browser, evil).status_code == 400
    assert come_back(browser, "").status_code == 400
    assert "access_denied" in status(chat)["error"]
    back = docs.logins.authorize(begin(chat))
    assert "docs can be used now" in come_back(browser, back).text
    log = server.log.read_text()
    assert "/api/v1/mcp/callback" in log
    for secret in (*docs.logins.access_tokens, back.partition("?")[2]):
        assert secret not in log


def test_a_login_is_finished_for_the_owner_who_began_it(
    start: Callable[..., Any], docs: ProtectedServer
) -> None:
    server = start(MOCHI_API_TOKEN="hush-hush-hush")
    entry = {"docs": {"url": docs.url, "owners": ["default"]}}
    (server.data_dir / "mcp.json").write_text(json.dumps({"mcpServers": entry}))
    chat = server.chat(headers={"Authorization": "Bearer hush-hush-hush"})
    back = docs.logins.authorize(begin(chat))

    page = come_back(server.chat(), back)

    assert "docs can be used now" in page.text


@pytest.mark.parametrize(
    ("name", "code", "status_code"),
    [("nobody", "NOT_FOUND", 404), ("local", "LOGIN_NOT_OFFERED", 409)],
)
def test_who_has_no_login_is_refused_one(
    server: Any, chat: Any, name: str, code: str, status_code: int
) -> None:
    servers = {"local": {"command": "no-such-program"}}
    (server.data_dir / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    for method in ("POST", "DELETE"):
        answer = chat.http.request(method, f"/mcp/servers/{name}/login")
        assert (answer.status_code, answer.json()["error"]["code"]) == (status_code, code)


def test_a_login_outlives_the_server(
    start: Callable[..., Any], docs: ProtectedServer, script: Script
) -> None:
    first = start()
    configure(first, docs)
    url = begin(first.chat())
    first.kill()
    second = start()
    assert come_back(second.chat(), docs.logins.authorize(url)).status_code == 200
    second.stop()

    third = start()

    assert result_of(third.chat(), script)["success"]
    assert third.chat().http.delete("/mcp/servers/docs/login").status_code == 204
    assert len(docs.logins.revoked) == 1
    refused = result_of(third.chat(), script)
    assert refused["error_code"] == "SERVICE_UNAVAILABLE"
    assert "needs a login: mochi-server mcp login docs" in refused["error_message"]


def test_two_workers_that_need_a_new_token_at_once_get_one(
    start: Callable[..., Any], docs: ProtectedServer, script: Script
) -> None:
    server = start("--workers", "2")
    configure(server, docs)
    chats = [server.chat_with(process) for process in server.web_processes]
    log_in(chats[0], docs)
    assert all(result_of(chat, script)["success"] for chat in chats)

    for _ in range(3):
        docs.logins.access_tokens.clear()
        with ThreadPoolExecutor() as pool:
            results = list(pool.map(lambda chat: result_of(chat, script), chats))
        assert [result["success"] for result in results] == [True, True]

    asked = [form for _, form in docs.logins.asked if form.get("grant_type") == "refresh_token"]
    assert len(asked) == 3


def test_a_server_that_is_killed_while_it_renews_a_token_renews_it_later(
    start: Callable[..., Any], docs: ProtectedServer, script: Script
) -> None:
    server = start()
    configure(server, docs)
    log_in(server.chat(), docs)
    docs.logins.access_tokens.clear()
    docs.logins.ignores_refreshes = True
    with ThreadPoolExecutor() as pool:
        calling = pool.submit(result_of, server.chat(), script)
        deadline = time.monotonic() + 60
        while not any("refresh_token" in form for _, form in docs.logins.asked):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        server.kill()
        assert calling.exception() is not None
    docs.logins.ignores_refreshes = False
    let_time_pass(server.data_dir)

    again = start()

    assert result_of(again.chat(), script)["success"]


def let_time_pass(data_dir: Path) -> None:
    """End the time that the dead server had to renew the token."""
    [file] = (data_dir / ".mochi" / "mcp_tokens").glob("*.json")
    record = json.loads(file.read_text())
    assert record["renewal"]["until"] > time.time()
    record["renewal"]["until"] = 0
    file.write_text(json.dumps(record))


def test_a_command_waits_for_the_browser_that_comes_back_to_the_server(
    start: Callable[..., Any], docs: ProtectedServer, script: Script
) -> None:
    server = start()
    configure(server, docs)
    chat = server.chat()
    port = server.url.rpartition(":")[2]
    environment = {name: v for name, v in os.environ.items() if not name.startswith("MOCHI_")}
    environment |= {"MOCHI_DATA_DIR": str(server.data_dir), "MOCHI_PORT": port}
    environment |= {"MOCHI_TEST_MODE": "true"}
    command = [sys.executable, "-m", "mochi_server", "mcp", "login", "docs", "--no-browser"]
    with subprocess.Popen(
        command, env=environment, cwd=server.data_dir, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = next(line for line in process.stdout if "/authorize?" in line).strip()

        assert come_back(chat, docs.logins.authorize(url)).status_code == 200

        assert process.stdout.read().endswith("Logged in to docs.\n")
    assert process.returncode == 0
    assert result_of(chat, script)["success"]
