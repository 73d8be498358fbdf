"""The guard refuses below ``/v1`` in OpenAI's shape, and everywhere else in the server's own."""

import json
from typing import Any

import pytest

from mochi_project.asgi_types import Receive, Scope, Send
from mochi_project.guard.guard import Guard
from tests.unit.mochi_project.guard.asking import JSON, TOKEN, App, Reply, ask, settings

PATH = "/v1/chat/completions"


def error_of(reply: Reply) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(reply.body)["error"]
    assert set(error) == {"message", "type", "param", "code", "mochi_code", "details"}
    assert reply.headers[b"content-type"] == b"application/json; charset=utf-8"
    assert reply.headers[b"content-length"] == b"%d" % len(reply.body)
    assert reply.headers[b"x-should-retry"] == b"false"
    return error


async def refused(app: App, *headers: tuple[bytes, bytes], **request: Any) -> Reply:
    guard = Guard(app, settings(max_body_bytes=1024), token=TOKEN, body_deadline=0.01)
    request = {"path": PATH, "method": "POST", **request}
    reply = await ask(guard, *headers, **request)
    assert app.bodies == []
    return reply


OURS = (b"x-api-key", TOKEN.encode())


async def test_a_request_without_the_token(app: App) -> None:
    reply = await refused(app)
    error = error_of(reply)

    assert (reply.status, error["type"]) == (401, "authentication_error")
    assert (error["code"], error["mochi_code"]) == ("invalid_api_key", "UNAUTHENTICATED")
    assert reply.headers[b"www-authenticate"].startswith(b"Bearer")


async def test_a_page_of_another_origin(app: App) -> None:
    reply = await refused(app, (b"origin", b"https://evil.example"))

    assert (reply.status, error_of(reply)["type"]) == (403, "permission_error")


async def test_a_host_that_is_not_ours(app: App) -> None:
    reply = await refused(app, host=b"evil.example")

    assert (reply.status, error_of(reply)["mochi_code"]) == (403, "FORBIDDEN")


async def test_a_body_that_is_too_large(app: App) -> None:
    reply = await refused(app, OURS, JSON, (b"content-length", b"99999999999"), body=[b"{"])
    error = error_of(reply)

    assert (reply.status, error["type"]) == (413, "invalid_request_error")
    assert error["mochi_code"] == "PAYLOAD_TOO_LARGE"
    assert error["details"]["max_bytes"] > 0


async def test_a_body_that_is_no_json(app: App) -> None:
    reply = await refused(app, OURS, (b"content-type", b"text/plain"), body=[b"{}"])

    assert (reply.status, error_of(reply)["type"]) == (415, "invalid_request_error")


async def test_a_body_that_is_too_slow(app: App) -> None:
    reply = await refused(app, OURS, JSON, body=[b"{"], stall=True)

    assert (reply.status, error_of(reply)["mochi_code"]) == (408, "REQUEST_TIMEOUT")


async def test_headers_that_are_too_large(app: App) -> None:
    reply = await refused(app, (b"x-large", b"x" * 66_000))

    assert (reply.status, error_of(reply)["type"]) == (431, "invalid_request_error")


async def test_a_header_that_was_sent_twice(app: App) -> None:
    reply = await refused(app, OURS, OURS)

    assert (reply.status, error_of(reply)["mochi_code"]) == (400, "BAD_REQUEST")


async def test_a_crash_of_the_application() -> None:
    async def crash(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": "/v1/models"}
    with pytest.raises(ZeroDivisionError):
        await Guard(crash, settings())(
            {**scope, "headers": [(b"host", b"localhost")]}, receive, send
        )

    reply = Reply(sent)
    assert (reply.status, error_of(reply)["type"]) == (500, "server_error")
    assert reply.headers[b"x-request-id"].startswith(b"req_")


@pytest.mark.parametrize("prefix", ["/mochi", "/a/b"])
async def test_below_the_path_of_a_proxy(app: App, prefix: str) -> None:
    guard = Guard(app, settings(root_path=prefix), token=TOKEN)

    inside = await ask(guard, path=f"{prefix}/v1/models")
    stripped = await ask(guard, path="/v1/models")

    assert error_of(inside)["code"] == error_of(stripped)["code"] == "invalid_api_key"


@pytest.mark.parametrize("path", ["/api/v1/sessions", "/v10/models", "/api/v1/v1/models"])
async def test_elsewhere_the_shape_is_the_servers_own(app: App, path: str) -> None:
    assert (await refused(app, path=path, method="GET")).code == "UNAUTHENTICATED"
