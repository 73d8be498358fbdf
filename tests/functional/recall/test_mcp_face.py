"""MCP's door: what real requests of both eras are answered, and what is refused."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.functional.conftest import NO_TLS
from tests.functional.recall.conftest import SECRET

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def http(server: Any) -> Iterator[httpx.Client]:
    """Return a client without a base path."""
    with httpx.Client(base_url=server.url, trust_env=False, verify=NO_TLS, timeout=30) as client:
        yield client


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def modern(
    http: httpx.Client, method: str, meta: Any = META, headers: Any = (), **params: Any
) -> httpx.Response:
    sent = {"mcp-protocol-version": MODERN, "mcp-method": method}
    if name := params.get("name") or params.get("uri"):
        sent["mcp-name"] = name
    sent |= dict(headers)
    sent = {key: value for key, value in sent.items() if value is not None}
    return http.post("/mcp", json=message(method, _meta=meta, **params), headers=sent)


def error_of(answer: httpx.Response) -> tuple[int, int]:
    assert answer.headers["content-type"].startswith("application/json")
    return answer.status_code, answer.json()["error"]["code"]


def test_a_client_of_the_earlier_era_shakes_hands(http: httpx.Client) -> None:
    for asked, told in (
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
    ):
        answer = http.post("/mcp", json=message("initialize", protocolVersion=asked))
        result = answer.json()["result"]
        assert result["protocolVersion"] == told
        assert result["capabilities"] == {"tools": {}, "resources": {}, "prompts": {}}
        assert result["serverInfo"]["name"] == "mochi-server"
        assert "mcp-session-id" not in answer.headers
    noted = http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (noted.status_code, noted.content) == (202, b"")
    listed = http.post("/mcp", json=message("tools/list")).json()["result"]
    assert list(listed) == ["tools"]


def test_a_client_of_the_later_era_discovers(http: httpx.Client) -> None:
    result = modern(http, "server/discover").json()["result"]
    assert MODERN in result["supportedVersions"]
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == (
        ("complete", 0, "private")
    )
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "mochi-server"
    tools = modern(http, "tools/list").json()["result"]["tools"]
    assert [tool["name"] for tool in tools] == [
        *("search_conversations", "read_conversation", "expand_summary")
    ]
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools)
    assert [tool["inputSchema"]["required"] for tool in tools] == [
        *(["query"], ["session_id"], ["session_id"])
    ]
    assert error_of(modern(http, "no/such")) == (404, -32601)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"headers": {"mcp-protocol-version": None}}, (400, -32020)),
        ({"headers": {"mcp-protocol-version": "2025-11-25"}}, (400, -32020)),
        ({"headers": {"mcp-method": "tools/call"}}, (400, -32020)),
        ({"headers": {"mcp-method": None}}, (400, -32020)),
        ({"meta": {}}, (400, -32602)),
        ({"meta": {**META, "io.modelcontextprotocol/protocolVersion": 1}}, (400, -32020)),
        (
            {
                "meta": {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"},
                "headers": {"mcp-protocol-version": "2099-01-01"},
            },
            (400, -32022),
        ),
        ({"meta": {}, "headers": {"mcp-protocol-version": "2099-01-01"}}, (400, -32022)),
    ],
)
def test_wrong_versions_and_headers_are_refused(
    http: httpx.Client, changes: Any, expected: tuple[int, int]
) -> None:
    answer = modern(http, "tools/list", **changes)
    assert error_of(answer) == expected
    assert answer.json()["id"] == 1
    if expected[1] == -32022:
        assert MODERN in answer.json()["error"]["data"]["supported"]


def test_the_name_in_the_header_is_that_of_the_body(http: httpx.Client) -> None:
    def call(header: str) -> httpx.Response:
        return modern(
            http,
            "tools/call",
            name="search_conversations",
            arguments={"query": "x"},
            headers={"mcp-name": header},
        )

    assert error_of(call("read_conversation")) == (400, -32020)
    assert error_of(call("=?base64?!?=")) == (400, -32020)
    assert call("=?base64?c2VhcmNoX2NvbnZlcnNhdGlvbnM=?=").status_code == 200


@pytest.mark.parametrize("method", ["ping", "initialize"])
def test_the_newer_era_has_no_handshake(http: httpx.Client, method: str) -> None:
    assert error_of(modern(http, method)) == (404, -32601)


def test_there_are_no_templates_of_resources(http: httpx.Client) -> None:
    listed = modern(http, "resources/templates/list").json()["result"]
    assert listed["resourceTemplates"] == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"[]", (400, -32600)),
        (json.dumps([message("ping")]).encode(), (400, -32600)),
        (b"{", (400, -32700)),
        (b'{"params": [' + b"0," * 200_000 + b"0]}", (400, -32600)),
        (b"", (400, -32600)),
        (b'"a"', (400, -32600)),
        (json.dumps({**message("ping"), "jsonrpc": "1.0"}).encode(), (400, -32600)),
        (json.dumps({**message("ping"), "id": None}).encode(), (400, -32600)),
        (json.dumps({**message("ping"), "id": True}).encode(), (400, -32600)),
        (json.dumps({**message("ping"), "params": []}).encode(), (400, -32600)),
        (json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode(), (400, -32600)),
        (json.dumps(message("no/such")).encode(), (200, -32601)),
        (json.dumps(message("tools/call")).encode(), (200, -32602)),
        (json.dumps(message("tools/call", name="rm", arguments={})).encode(), (200, -32602)),
        (
            json.dumps(message("tools/call", name="read_conversation", arguments={})).encode(),
            (200, -32602),
        ),
        (b" " * 1_100_000, (413, -32600)),
    ],
)
def test_what_is_no_good_request_is_refused(
    http: httpx.Client, body: bytes, expected: tuple[int, int]
) -> None:
    answer = http.post("/mcp", content=body, headers={"content-type": "application/json"})
    assert error_of(answer) == expected


def test_there_is_no_stream_and_no_session(http: httpx.Client) -> None:
    for method in ("GET", "DELETE"):
        answer = http.request(method, "/mcp")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert http.post("/mcp/more", json=message("ping")).status_code == 404
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/openid-configuration"):
        assert http.get(path).status_code == 404
    assert http.post("/register", json={}).status_code == 404
    assert "/mcp" not in http.get("/api/v1/openapi.json").json()["paths"]


def test_conversations_are_found_read_and_listed(http: httpx.Client, earlier: str) -> None:
    def call(name: str, **arguments: Any) -> dict[str, Any]:
        return modern(http, "tools/call", name=name, arguments=arguments).json()["result"]

    found = call("search_conversations", query="Hiiumaa", role="user")
    assert (found["isError"], "structuredContent" in found) == (False, False)
    [content] = found["content"]
    assert f"session {earlier}," in content["text"]
    read = call("read_conversation", session_id=earlier)
    assert SECRET in read["content"][0]["text"]
    missing = call("read_conversation", session_id="0123456789")
    assert missing["isError"]
    assert "0123456789" in missing["content"][0]["text"]
    page = modern(http, "resources/list").json()["result"]
    [uri] = [each["uri"] for each in page["resources"] if each["name"] == "Lighthouses"]
    [resource] = modern(http, "resources/read", uri=uri).json()["result"]["contents"]
    assert (resource["uri"], resource["mimeType"]) == (uri, "text/plain")
    assert f'<record session="{uri.rpartition("/")[2]}"' in resource["text"]
    assert SECRET in resource["text"]
    assert error_of(modern(http, "resources/read", uri="mochi://sessions/0123456789")) == (
        (400, -32602)
    )
    assert error_of(modern(http, "resources/read", uri="file:///etc/passwd")) == (400, -32602)
    assert error_of(modern(http, "resources/list", cursor="x")) == (400, -32602)


def test_prompt_files_are_prompts(server: Any, http: httpx.Client) -> None:
    http.post("/api/v1/system-prompts", json={"filename": "brief.md", "content": "Be brief."})
    assert modern(http, "prompts/list").json()["result"]["prompts"] == [
        {"name": "brief", "description": "Be brief."}
    ]
    assert modern(http, "prompts/get", name="brief").json()["result"]["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "Be brief."}}
    ]
    assert error_of(modern(http, "prompts/get", name="../brief")) == (400, -32602)


def test_pages_of_other_origins_may_not_call(http: httpx.Client) -> None:
    answer = http.post(
        "/mcp", json=message("tools/list"), headers={"origin": "https://evil.example"}
    )
    assert error_of(answer) == (403, -32600)
    assert error_of(http.post("/mcp", json=message("ping"), headers={"host": "evil.example"})) == (
        (403, -32600)
    )


def test_the_door_is_shut_unless_it_is_opened_and_asks_for_the_token(
    start: Callable[..., Any],
) -> None:
    shut = start()
    ping = message("ping")
    patient: Any = {"json": ping, "trust_env": False, "verify": NO_TLS, "timeout": 30}
    for method in ("POST", "GET"):
        refused = httpx.request(method, f"{shut.url}/mcp", **patient)
        assert refused.status_code == 404
        assert "MOCHI_MCP_SERVER=true" in refused.json()["error"]["message"]
    shut.stop()
    server = start(MOCHI_MCP_SERVER="true", MOCHI_API_TOKEN="long-and-secret-token")
    assert error_of(httpx.post(f"{server.url}/mcp", **patient)) == (401, -32600)
    for headers in (
        {"authorization": "Bearer long-and-secret-token"},
        {"x-api-key": "long-and-secret-token"},
    ):
        answer = httpx.post(f"{server.url}/mcp", headers=headers, **patient)
        assert answer.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
