import json

import pytest

from mochi_project.asgi_types import Message, Receive, Scope, Send
from mochi_project.guard.guard import Guard
from tests.unit.mochi_project.guard.asking import TOKEN, App, Reply, ask, settings


async def test_a_plain_request_passes_with_its_security_headers(app: App) -> None:
    reply = await ask(Guard(app, settings()))
    assert (reply.status, reply.body, reply.complete) == (200, b"ok", True)
    assert reply.headers[b"x-content-type-options"] == b"nosniff"
    assert reply.headers[b"vary"] == b"Origin"
    assert b"access-control-allow-origin" not in reply.headers
    assert app.after_body == {"type": "http.disconnect"}


async def test_headers_that_the_application_sets_are_not_sent_twice(app: App) -> None:
    app.headers = [(b"Content-Security-Policy", b"its own"), (b"Vary", b"Accept")]
    reply = await ask(Guard(app, settings()))
    policies = [v for n, v in reply.header_list if n == b"content-security-policy"]
    assert policies == [b"its own"]
    assert [v for n, v in reply.header_list if n == b"vary"] == [b"Accept", b"Origin"]


@pytest.mark.parametrize("host", [b"evil.example", b"evil.example:8000", b"", None])
async def test_a_rebound_host_name_is_refused(app: App, host: bytes | None) -> None:
    reply = await ask(Guard(app, settings()), host=host)
    assert (reply.status, reply.code) == (403, "FORBIDDEN")
    assert app.scopes == []


async def test_the_name_that_the_server_listens_on_is_answered_to(app: App) -> None:
    assert (await ask(Guard(app, settings(host="box.lan")), host=b"box.lan:8000")).status == 200


async def test_the_name_of_the_public_address_is_answered_to(app: App) -> None:
    guard = Guard(app, settings(public_url="https://mochi.example.org/chat"))
    assert (await ask(guard, host=b"mochi.example.org")).status == 200


@pytest.mark.parametrize("origin", [b"https://evil.example", b"null", b"http://evil.example:8000"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_a_foreign_origin_is_refused_without_cors_headers(
    app: App, origin: bytes, method: str
) -> None:
    reply = await ask(
        Guard(app, settings()),
        (b"origin", origin),
        (b"access-control-request-method", b"POST"),
        method=method,
    )
    assert (reply.status, reply.code) == (403, "FORBIDDEN")
    assert not any(name.startswith(b"access-control") for name in reply.headers)
    assert app.scopes == []


async def test_a_simple_request_in_text_plain_from_a_web_page_is_refused(app: App) -> None:
    reply = await ask(
        Guard(app, settings()),
        (b"origin", b"https://evil.example"),
        (b"content-type", b"text/plain"),
        method="POST",
        body=[b'{"model":"x"}'],
    )
    assert reply.status == 403
    assert app.scopes == []


@pytest.mark.parametrize("site", [b"cross-site", b"same-site"])
async def test_another_sites_request_without_an_origin_is_refused(app: App, site: bytes) -> None:
    guard = Guard(app, settings())
    for method in ("POST", "GET"):
        reply = await ask(guard, (b"sec-fetch-site", site), method=method)
        assert (reply.status, reply.code) == (403, "FORBIDDEN")
    framed = await ask(
        guard,
        (b"sec-fetch-site", site),
        (b"sec-fetch-mode", b"navigate"),
        (b"sec-fetch-dest", b"iframe"),
    )
    assert framed.status == 403
    posted_form = await ask(
        guard,
        (b"sec-fetch-site", site),
        (b"sec-fetch-mode", b"navigate"),
        (b"sec-fetch-dest", b"document"),
        method="POST",
    )
    assert posted_form.status == 403


async def test_a_link_on_another_site_may_be_followed(app: App) -> None:
    reply = await ask(
        Guard(app, settings()),
        (b"sec-fetch-site", b"cross-site"),
        (b"sec-fetch-mode", b"navigate"),
        (b"sec-fetch-dest", b"document"),
    )
    assert reply.status == 200


@pytest.mark.parametrize(
    "origin", [b"tauri://localhost", b"https://app.example.com", b"http://localhost:3000"]
)
async def test_allowed_origins_get_cors_headers_and_may_be_cross_site(
    app: App, origin: bytes
) -> None:
    guard = Guard(app, settings(cors_origins="tauri://localhost,https://app.example.com"))
    reply = await ask(guard, (b"origin", origin), (b"sec-fetch-site", b"cross-site"), method="POST")
    assert reply.status == 200
    assert reply.headers[b"access-control-allow-origin"] == origin
    readable = reply.headers[b"access-control-expose-headers"].split(b", ")
    ids = {b"request-id", b"x-request-id", b"x-mochi-session-id"}
    assert {b"Retry-After", b"x-mochi-warning", *ids} <= {*readable}
    assert b"access-control-allow-credentials" not in reply.headers


async def test_the_guard_answers_a_preflight_itself_and_without_a_token(app: App) -> None:
    reply = await ask(
        Guard(app, settings(), token=TOKEN),
        (b"origin", b"http://localhost:3000"),
        (b"access-control-request-method", b"POST"),
        method="OPTIONS",
    )
    assert reply.status == 204
    assert reply.body == b""
    assert reply.headers[b"access-control-allow-origin"] == b"http://localhost:3000"
    assert reply.headers[b"vary"] == b"Origin"
    allowed = reply.headers[b"access-control-allow-headers"].split(b", ")
    assert {b"Authorization", b"Last-Event-ID", b"Idempotency-Key", b"Content-Type"} == set(allowed)
    assert b"DELETE" in reply.headers[b"access-control-allow-methods"]
    assert app.scopes == []


async def test_options_that_are_no_preflight_reach_the_application(app: App) -> None:
    assert (await ask(Guard(app, settings()), method="OPTIONS")).status == 200


async def test_headers_over_64_kib_are_431(app: App) -> None:
    guard = Guard(app, settings())
    assert (await ask(guard, (b"x-large", b"x" * 64_000))).status == 200
    reply = await ask(guard, (b"x-large", b"x" * 66_000))
    assert (reply.status, reply.code) == (431, "HEADERS_TOO_LARGE")
    many = await ask(guard, *[(b"x-small", b"")] * 9000)
    assert many.status == 431
    assert (await ask(guard, query_string=b"q" * 66_000)).status == 431


@pytest.mark.parametrize(
    "header",
    [
        (b"host", b"localhost"),
        (b"origin", b"http://localhost"),
        (b"authorization", b"Bearer x"),
        (b"x-api-key", b"x"),
        (b"api-key", b"x"),
        (b"access-control-request-headers", b"x"),
        (b"content-type", b"application/json"),
        (b"sec-fetch-site", b"none"),
    ],
)
async def test_a_header_that_decides_may_come_only_once(
    app: App, header: tuple[bytes, bytes]
) -> None:
    reply = await ask(Guard(app, settings()), header, header)
    assert (reply.status, reply.code) == (400, "BAD_REQUEST")


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer wrong",
        b"Bearer s3cret-token2",
        b"Basic s3cret-token",
        b"s3cret-token",
        b"Bearer \xff",
    ],
)
async def test_a_missing_or_wrong_token_is_401(app: App, value: bytes | None) -> None:
    headers = [] if value is None else [(b"authorization", value)]
    reply = await ask(
        Guard(app, settings(), token=TOKEN), *headers, (b"origin", b"http://localhost:3000")
    )
    assert (reply.status, reply.code) == (401, "UNAUTHENTICATED")
    assert reply.headers[b"www-authenticate"].startswith(b"Bearer")
    # Or else a front end could not read why.
    assert reply.headers[b"access-control-allow-origin"] == b"http://localhost:3000"
    assert TOKEN.encode() not in reply.body
    assert app.scopes == []


@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER"])
async def test_the_right_token_passes(app: App, scheme: bytes) -> None:
    guard = Guard(app, settings(), token=TOKEN)
    reply = await ask(guard, (b"authorization", scheme + b" " + TOKEN.encode()))
    assert reply.status == 200


@pytest.mark.parametrize("name", [b"x-api-key", b"api-key"])
@pytest.mark.parametrize("path", ["/v1/models", "/api/v1/sessions"])
async def test_the_token_may_come_as_a_key(app: App, name: bytes, path: str) -> None:
    guard = Guard(app, settings(), token=TOKEN)
    assert (await ask(guard, (name, TOKEN.encode()), path=path)).status == 200


@pytest.mark.parametrize("name", [b"x-api-key", b"api-key"])
@pytest.mark.parametrize(
    "value", [b"", b"wrong", b"Bearer s3cret-token", b"s3cret-token2", b"S3CRET-TOKEN", b"\xff"]
)
async def test_a_wrong_key_is_401(app: App, name: bytes, value: bytes) -> None:
    reply = await ask(Guard(app, settings(), token=TOKEN), (name, value))
    assert (reply.status, reply.code) == (401, "UNAUTHENTICATED")
    assert app.scopes == []


@pytest.mark.parametrize("authorization", [b"Bearer dummy", b"Basic dXNlcjpwYXNz", b""])
async def test_the_right_key_passes_beside_a_dummy(app: App, authorization: bytes) -> None:
    guard = Guard(app, settings(), token=TOKEN)
    given = ((b"authorization", authorization), (b"x-api-key", TOKEN.encode()))
    assert (await ask(guard, *given)).status == 200


@pytest.mark.parametrize(
    "name", [b"authorization", b"x-api-key", b"api-key", b"openai-api-key", b"x-api-key2"]
)
async def test_without_a_token_of_ours_what_is_sent_as_one_is_ignored(
    app: App, name: bytes
) -> None:
    assert (await ask(Guard(app, settings()), (name, b"ollama"))).status == 200


async def test_a_key_of_another_name_is_none(app: App) -> None:
    guard = Guard(app, settings(), token=TOKEN)
    for name in (b"apikey", b"x-api-key2", b"openai-api-key", b"x-goog-api-key", b"cookie"):
        assert (await ask(guard, (name, TOKEN.encode()))).status == 401


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/health", 200),
        ("/api/v1/docs", 200),
        ("/api/v1/openapi.json", 200),
        ("/api/v1/docs/static/swagger-ui.css", 200),
        ("/api/v1/health/", 401),
        ("/api/v1/healthy", 401),
        ("/api/v1/docs/", 401),
        ("/api/v1/docs/sessions", 401),
        ("//api/v1/health", 401),
        ("/", 200),
        ("/app.js", 200),
        ("/app.js/", 401),
        ("//", 401),
    ],
)
async def test_health_docs_and_the_chat_page_need_no_token_and_nothing_else(
    app: App, path: str, status: int
) -> None:
    assert (await ask(Guard(app, settings(), token=TOKEN), path=path)).status == status


async def test_behind_a_path_prefix_health_is_still_free(app: App) -> None:
    guard = Guard(app, settings(), token=TOKEN)
    reply = await ask(guard, path="/mochi/api/v1/health", root_path="/mochi")
    assert reply.status == 200


async def test_websockets_are_refused_and_the_lifespan_is_passed_on(app: App) -> None:
    guard = Guard(app, settings())
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    await guard({"type": "websocket", "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
    sent.clear()
    extensions = {"websocket.http.response": {}}
    await guard({"type": "websocket", "headers": [], "extensions": extensions}, receive, send)
    assert sent[0]["status"] == 403
    assert json.loads(sent[1]["body"])["error"]["code"] == "FORBIDDEN"
    assert app.scopes == []
    await guard({"type": "lifespan"}, receive, send)
    assert app.scopes == [{"type": "lifespan"}]


class Crashing:
    """An application that raises, before it starts a response or in the middle of it."""

    def __init__(self, *, begins: bool) -> None:
        self.begins = begins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.begins:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ImportError("secret words")


async def test_a_crash_of_the_application_is_the_envelope_and_still_raised_for_the_log() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/sessions",
        "headers": [(b"host", b"localhost")],
    }
    with pytest.raises(ImportError):
        await Guard(Crashing(begins=False), settings())(scope, receive, send)
    reply = Reply(sent)
    assert (reply.status, reply.code, reply.complete) == (500, "INTERNAL_ERROR", True)
    assert reply.headers[b"connection"] == b"close"
    assert reply.headers[b"x-content-type-options"] == b"nosniff"
    assert b"secret" not in reply.body

    sent.clear()
    with pytest.raises(ImportError):
        await Guard(Crashing(begins=True), settings())(scope, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start"]
