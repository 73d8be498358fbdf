import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.conformance

JSON = {"content-type": "application/json"}
SESSION = b'{"model":"qwen3:14b"}'

StartEdge = Callable[..., Any]


def error_of(response: httpx.Response) -> dict[str, Any]:
    assert response.headers["content-type"].startswith("application/json")
    assert response.headers["x-content-type-options"] == "nosniff"
    for word in (b"Traceback", b'File "', b"secret", b"canary"):
        assert word not in response.content
    error = response.json()["error"]
    assert set(error) == {"code", "message", "details"}
    return dict(error)


@pytest.fixture
def client(edge_server: Any) -> Iterator[httpx.Client]:
    with edge_server.client() as client:
        yield client


def test_a_rebound_name_and_a_foreign_page_are_refused_and_change_nothing(
    client: httpx.Client, edge_server: Any
) -> None:
    attacks: list[tuple[str, dict[str, str], bytes]] = [
        ("/api/v1/sessions", {**JSON, "host": "evil.example"}, SESSION),
        ("/api/v1/sessions", {**JSON, "host": "localhost.evil.example:8000"}, SESSION),
        ("/api/v1/sessions", {"content-type": "text/plain", "origin": "https://evil"}, SESSION),
        ("/api/v1/sessions", {**JSON, "origin": "https://evil.example"}, SESSION),
        ("/api/v1/sessions", {**JSON, "origin": "null"}, SESSION),
        ("/api/v1/chat/a1b2c3d4e5/cancel", {"sec-fetch-site": "cross-site"}, b""),
        ("/api/v1/chat/a1b2c3d4e5/cancel", {"origin": "http://localhost.evil.example"}, b""),
    ]
    for path, headers, body in attacks:
        response = client.post(path, headers=headers, content=body)
        assert (response.status_code, error_of(response)["code"]) == (403, "FORBIDDEN"), headers
        assert "access-control-allow-origin" not in response.headers
    assert edge_server.sessions_on_disk() == []


def test_json_sent_as_another_type_is_refused_saying_which_one_is_right(
    client: httpx.Client, edge_server: Any
) -> None:
    response = client.post(
        "/api/v1/sessions", headers={"content-type": "text/plain"}, content=SESSION
    )
    assert (response.status_code, error_of(response)["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert "application/json" in error_of(response)["message"]
    assert edge_server.sessions_on_disk() == []


def test_configured_and_loopback_origins_may_call_with_a_preflight(start_edge: StartEdge) -> None:
    edge = start_edge(MOCHI_CORS_ORIGINS="tauri://localhost", MOCHI_API_TOKEN="t0ken")
    with edge.client() as client:
        for origin in ("tauri://localhost", "http://localhost:5173"):
            asked = {"origin": origin, "access-control-request-method": "POST"}
            preflight = client.options("/api/v1/sessions", headers=asked)
            assert preflight.status_code == 204
            assert preflight.headers["access-control-allow-origin"] == origin
            response = client.get(
                "/api/v1/sessions", headers={"origin": origin, "authorization": "Bearer t0ken"}
            )
            assert response.status_code == 200
            assert response.headers["access-control-allow-origin"] == origin
            assert "Origin" in response.headers["vary"]


def test_the_token_is_wanted_everywhere_but_for_health_and_docs(start_edge: StartEdge) -> None:
    with start_edge(MOCHI_API_TOKEN="t0ken").client() as client:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic t0ken"}):
            response = client.get("/api/v1/sessions", headers=headers)
            assert (response.status_code, error_of(response)["code"]) == (401, "UNAUTHENTICATED")
            assert response.headers["www-authenticate"].startswith("Bearer")
        right = client.get("/api/v1/sessions", headers={"authorization": "Bearer t0ken"})
        assert right.status_code == 200
        for path in ("/api/v1/health", "/api/v1/docs", "/api/v1/openapi.json"):
            assert client.get(path).status_code == 200


def test_a_huge_chunked_body_is_cut_off_while_it_is_read_and_never_kept(edge_server: Any) -> None:
    before = edge_server.memory()
    sent = 0

    def body() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(60):
            sent += 1_000_000
            yield b"x" * 1_000_000

    with edge_server.client() as client:
        try:
            response = client.post("/api/v1/sessions", headers=JSON, content=body())
        except httpx.WriteError:  # also right: the server closed before it had everything
            response = None
        if response is not None:
            assert (response.status_code, error_of(response)["code"]) == (413, "PAYLOAD_TOO_LARGE")
        assert client.get("/api/v1/health").status_code == 200
    assert edge_server.memory() - before < 20_000_000


def test_the_413_comes_while_the_client_is_still_sending(edge_server: Any) -> None:
    with edge_server.connect() as sock:
        sock.sendall(
            b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
        for _ in range(70):
            sock.sendall(chunk)
        answer = sock.recv(200)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_an_announced_large_body_is_refused_at_once_and_the_connection_closed(
    edge_server: Any,
) -> None:
    answer = edge_server.raw(
        b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: 60000000\r\n\r\n"
    )
    assert (answer.status, answer.error["code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert answer.closed


def test_a_slow_body_is_given_up_at_its_deadline(start_edge: StartEdge) -> None:
    edge = start_edge(EDGE_BODY_DEADLINE="0.3")
    begin = time.monotonic()
    answer = edge.raw(
        b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
        b'Content-Type: application/json\r\nContent-Length: 21\r\n\r\n{"mod'
    )
    assert (answer.status, answer.error["code"]) == (408, "REQUEST_TIMEOUT")
    assert answer.closed
    assert time.monotonic() - begin > 0.2


def test_a_refusal_without_a_body_leaves_the_connection_usable(edge_server: Any) -> None:
    refused = b"GET /api/v1/sessions HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    admitted = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with edge_server.connect() as sock:
        sock.sendall(refused)
        assert edge_server.read(sock).status == 403
        sock.sendall(admitted)
        assert edge_server.read(sock).status == 200


@pytest.mark.parametrize("whole", [True, False], ids=["complete", "endless"])
def test_headers_over_64_kib_are_431(edge_server: Any, whole: bool) -> None:
    end = b"\r\n\r\n" if whole else b""
    answer = edge_server.raw(
        b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"x" * 200_000 + end
    )
    assert (answer.status, answer.error["code"]) == (431, "HEADERS_TOO_LARGE")


def test_endless_headers_are_not_kept_in_memory(edge_server: Any) -> None:
    before = edge_server.memory()
    with edge_server.connect() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: ")
        try:
            for _ in range(40):
                sock.sendall(b"x" * 1_000_000)
        except (ConnectionError, TimeoutError):
            pass
    assert edge_server.memory() - before < 10_000_000


@pytest.mark.parametrize("before", [b"", b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_head_that_takes_too_long_is_given_up(start_edge: StartEdge, before: bytes) -> None:
    edge = start_edge(EDGE_HEAD_DEADLINE="0.3")
    with edge.connect() as sock:
        if before:
            sock.sendall(before)
            assert edge.read(sock).status == 200
        sock.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: local")
        answer = edge.read(sock)
    assert (answer.status, answer.error["code"]) == (408, "REQUEST_TIMEOUT")
    assert answer.closed


@pytest.mark.parametrize("said", [b"", b"\r\n"])
def test_a_connection_that_never_asks_anything_is_closed(
    start_edge: StartEdge, said: bytes
) -> None:
    edge = start_edge(EDGE_HEAD_DEADLINE="0.3")
    with edge.connect() as sock:
        sock.sendall(said)
        received = b""
        while piece := sock.recv(4096):
            received += piece
    assert bool(received) == bool(said)


def test_a_slow_body_is_not_held_to_the_deadline_of_a_head(start_edge: StartEdge) -> None:
    edge = start_edge(EDGE_HEAD_DEADLINE="0.2", EDGE_BODY_DEADLINE="0.6")
    answer = edge.raw(
        b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
        b'Content-Type: application/json\r\nContent-Length: 21\r\n\r\n{"mod'
    )
    assert "body" in answer.error["message"]


def test_what_is_no_http_is_400_in_the_envelope(edge_server: Any) -> None:
    answer = edge_server.raw(b"HELLO\r\n\r\n")
    assert (answer.status, answer.error["code"]) == (400, "BAD_REQUEST")


def test_trailers_can_not_change_headers_that_were_judged(edge_server: Any) -> None:
    answer = edge_server.raw(
        b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'b\r\n{"model":5}\r\n0\r\nHost: evil.example\r\nContent-Type: text/plain\r\n\r\n'
    )
    assert answer.status == 422  # the body was read as JSON; its model is no text


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/sessions/%00",
        "/api/v1/sessions/%0a",
        "/api/v1/sessions/..",
        "/api/v1/sessions/..%2f..%2fetc%2fpasswd",
        "/api/v1/sessions/..%5c..%5cx",
        "/api/v1/sessions/a1b2c3d4e5%0a",
        "/api/v1/sessions/a1b2c3d4e5%00",
        "/api/v1/sessions/a1b2c3d4e5",
        "/api/v1/sessions/%ff%fe",
        "/api/v1/docs/static/..%2f..%2fpy.typed",
        "/api/v1/docs/static/../../sessions",
        "/nowhere",
        "/%00",
        "/a%0ab",
    ],
)
def test_odd_paths_are_404_in_the_envelope(edge_server: Any, path: str) -> None:
    answer = edge_server.raw(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    assert answer.status == 404
    assert answer.error["code"] in {"NOT_FOUND", "SESSION_NOT_FOUND"}


def test_odd_prompt_names_never_reach_the_disk(edge_server: Any) -> None:
    (edge_server.data_dir / "system_prompts").mkdir()
    (edge_server.data_dir / "secret.md").write_text("canary")
    for name in ("..%2fsecret.md", "%00.md", "..", "a%0a.md"):
        answer = edge_server.raw(
            f"GET /api/v1/system-prompts/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
        assert answer.status in {404, 422}
        assert b"canary" not in answer.body


def test_a_wrong_method_is_405_with_the_methods_that_are_right(client: httpx.Client) -> None:
    for method, path in (("PUT", "/api/v1/sessions"), ("POST", "/api/v1/docs/static/favicon.svg")):
        response = client.request(method, path)
        assert (response.status_code, error_of(response)["code"]) == (405, "METHOD_NOT_ALLOWED")
        assert {"GET", "HEAD"} <= set(response.headers["allow"].split(", "))


@pytest.mark.parametrize(
    "path",
    ["/health", "/sessions", "/sessions/ffffffffff", "/tools", "/docs", "/openapi.json", "/"],
)
def test_head_is_answered_as_get_without_the_body(client: httpx.Client, path: str) -> None:
    got, head = (client.request(method, f"/api/v1{path}") for method in ("GET", "HEAD"))
    assert (head.status_code, head.content) == (got.status_code, b"")
    for name in ("content-type", "content-length"):
        assert head.headers[name] == got.headers[name]


def test_an_answer_without_content_has_no_type(client: httpx.Client) -> None:
    made = client.post("/api/v1/sessions", json={"model": "qwen3:14b"}).json()["session_id"]
    for method, path in (("GET", f"/chat/{made}/stream"), ("DELETE", f"/sessions/{made}")):
        answer = client.request(method, f"/api/v1{path}")
        assert (answer.status_code, answer.content) == (204, b"")
        assert "content-type" not in answer.headers


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "BAD_REQUEST"),
        (b'{"model": NaN}', 400, "BAD_REQUEST"),
        (b'{"model": "a", "model": "b"}', 400, "BAD_REQUEST"),
        (b'{"model": "\\ud800"}', 400, "BAD_REQUEST"),
        (b'{"model": "\xff"}', 400, "BAD_REQUEST"),
        (b"[" * 10_000, 400, "BAD_REQUEST"),
        (b"[]", 422, "VALIDATION_ERROR"),
        (b"null", 422, "VALIDATION_ERROR"),
    ],
)
def test_bad_bodies_are_refused_and_leave_nothing_behind(
    client: httpx.Client, edge_server: Any, body: bytes, status: int, code: str
) -> None:
    response = client.post("/api/v1/sessions", headers=JSON, content=body)
    assert (response.status_code, error_of(response)["code"]) == (status, code)
    assert edge_server.sessions_on_disk() == []


def test_a_crash_tells_the_client_nothing_and_the_log_everything(
    start_edge: StartEdge, tmp_path: Path
) -> None:
    with start_edge(EDGE_BREAK="1").client() as client:
        response = client.get("/api/v1/system-prompts")
    assert (response.status_code, error_of(response)["code"]) == (500, "INTERNAL_ERROR")
    assert "secret-in-a-crash" in (tmp_path / "stderr.txt").read_text()


def test_the_docs_files_are_served_from_the_package_for_browsers_to_keep(
    client: httpx.Client,
) -> None:
    page = client.get("/api/v1/docs")
    assert page.status_code == 200
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    for name, kind in (("swagger-ui.css", "text/css"), ("swagger-ui-bundle.js", "text/javascript")):
        assert f"/api/v1/docs/static/{name}?v=" in page.text
        asset = client.get(f"/api/v1/docs/static/{name}")
        assert asset.headers["content-type"].startswith(kind)
        assert "immutable" in asset.headers["cache-control"]
    missing = client.get("/api/v1/docs/static/redoc.standalone.js")
    assert (missing.status_code, error_of(missing)["code"]) == (404, "NOT_FOUND")


def test_idle_connections_are_bounded_and_those_that_work_are_not_counted(
    start_edge: StartEdge,
) -> None:
    edge = start_edge(EDGE_WAITING="3")
    asked = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    slow = (
        b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: 21\r\n\r\n{"
    )
    sockets = [edge.connect() for _ in range(3)]
    for sock, sent in zip(sockets, (asked, b"GET / HT", slow), strict=True):
        sock.sendall(sent)
    assert edge.read(sockets[0]).status == 200  # it waits for its next request, the last in line
    with edge.connect() as newest:
        newest.sendall(asked)
        assert edge.read(newest).status == 200
        assert sockets[1].recv(1) == b""  # the one that waited longest
        with edge.connect() as another:
            another.sendall(asked)
            assert edge.read(another).status == 200
            assert sockets[2].recv(1) == b""
        sockets[0].sendall(asked)
        assert edge.read(sockets[0]).status == 200
    for sock in sockets:
        sock.close()
