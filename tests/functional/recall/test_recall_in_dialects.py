"""Recall through every door: selected by a header, run inside, told to the model as a record."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall, serve
from tests.functional.conftest import NO_TLS
from tests.functional.recall.conftest import SECRET

SAID: Any = [{"role": "user", "content": "Since when?"}]
OWN = {
    "type": "mcp",
    "server_label": "mochi",
    "allowed_tools": ["search_conversations"],
    "require_approval": "never",
}
DOORS = {
    "/v1/chat/completions": {"messages": SAID},
    "/v1/responses": {"input": "Since when?", "tools": [OWN]},
    "/v1/messages": {"messages": SAID, "max_tokens": 100},
    "/ollama/api/chat": {"messages": SAID, "stream": False},
}


def post(server: MochiServer, path: str, body: Any, headers: Any = ()) -> httpx.Response:
    return httpx.post(
        f"{server.url}{path}",
        json=body,
        headers=dict(headers),
        verify=NO_TLS,
        trust_env=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def scripted() -> Iterator[MochiServer]:
    """Return a server at which something was said."""
    with serve() as server:
        made = post(server, "/api/v1/sessions", {"model": MODEL}).json()
        post(server, f"/api/v1/chat/{made['session_id']}", {"message": SECRET}).raise_for_status()
        yield server


def test_who_names_no_tool_gets_all_but_the_built_in_ones(scripted: MochiServer) -> None:
    scripted.reset()
    tools = [{key: value for key, value in OWN.items() if key != "allowed_tools"}]
    body = {"model": MODEL, "input": "Since when?", "tools": tools}
    post(scripted, "/v1/responses", body).raise_for_status()
    assert not scripted.model_requests[-1].get("tools")


@pytest.mark.parametrize("path", DOORS)
def test_a_model_behind_any_door_finds_what_was_said(scripted: MochiServer, path: str) -> None:
    scripted.reset()
    call = ToolCall("search_conversations", {"query": "Hiiumaa"})
    scripted.script(Reply(tool_calls=[call]), "Since 1531.")
    headers = {"x-mochi-tools": "search_conversations"}
    answer = post(scripted, path, {"model": MODEL, **DOORS[path]}, headers)
    assert answer.status_code == 200, answer.text
    assert "Since 1531." in answer.text
    [result] = [
        message["content"]
        for message in scripted.model_requests[-1]["messages"]
        if message["role"] == "tool"
    ]
    assert SECRET in result
    assert "<record>\n1. session " in result
