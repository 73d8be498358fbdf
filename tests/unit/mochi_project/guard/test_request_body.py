import asyncio
import json

import pytest

from mochi_project.asgi_types import Message
from mochi_project.guard.guard import Guard
from tests.unit.mochi_project.guard.asking import JSON, App, Reply, ask, settings


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        b"text/plain",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data; boundary=x",
        b"application/jsonp",
        b"text/plain; application/json",
        b"application/json; charset=latin-1",
    ],
)
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_that_is_not_json_is_415_and_says_so(
    app: App, content_type: bytes | None, chunked: bool
) -> None:
    headers = [] if content_type is None else [(b"content-type", content_type)]
    if not chunked:
        headers.append((b"content-length", b"2"))
    reply = await ask(Guard(app, settings()), *headers, method="POST", body=[b"{}"])
    assert (reply.status, reply.code) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert "application/json" in reply.message
    assert reply.headers[b"connection"] == b"close"
    assert reply.complete
    assert app.scopes == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 200),
        ([(b"content-type", b"application/x-www-form-urlencoded")], 200),
        ([(b"content-type", b"text/plain")], 415),
        ([(b"origin", b"https://evil.example")], 403),
        ([(b"sec-fetch-site", b"cross-site")], 403),
    ],
)
async def test_a_body_without_a_type_or_of_a_form_is_json_where_clients_of_a_protocol_send_it(
    app: App, headers: list[tuple[bytes, bytes]], status: int
) -> None:
    guard = Guard(app, settings())
    sent = await ask(guard, *headers, method="POST", path="/ollama/api/chat", body=[b"{}"])
    assert (sent.status, len(app.scopes)) == (status, status == 200)


async def test_compressed_bodies_are_415(app: App) -> None:
    reply = await ask(
        Guard(app, settings()), JSON, (b"content-encoding", b"gzip"), method="POST", body=[b"x"]
    )
    assert (reply.status, reply.code) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/json",
        b"Application/JSON",
        b"application/json; charset=utf-8",
        b'application/json;charset="UTF-8"',
        b"application/json ; version=1",
    ],
)
async def test_json_is_replayed_to_the_application_in_one_piece(
    app: App, content_type: bytes
) -> None:
    reply = await ask(
        Guard(app, settings()),
        (b"content-type", content_type),
        method="POST",
        body=[b'{"a"', b":1}"],
    )
    assert reply.status == 200
    assert app.bodies == [b'{"a":1}']
    assert app.after_body == {"type": "http.disconnect"}


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"0")]])
async def test_a_post_without_a_body_needs_no_type(
    app: App, headers: list[tuple[bytes, bytes]]
) -> None:
    assert (await ask(Guard(app, settings()), *headers, method="POST")).status == 200
    assert app.bodies == [b""]


@pytest.mark.parametrize(
    ("announced", "body"),
    [
        ([(b"content-length", b"9")], []),
        ([(b"content-length", b"9")], [b'{"a":']),
        ([], []),  # in chunks
    ],
)
async def test_a_body_that_got_lost_on_its_way_is_400(
    app: App, announced: list[tuple[bytes, bytes]], body: list[bytes]
) -> None:
    """Servers that know nothing of ignored upgrades lose the bodies of such requests."""
    reply = await ask(Guard(app, settings()), JSON, *announced, method="POST", body=body)
    assert (reply.status, reply.code) == (400, "BAD_REQUEST")
    assert "announced" in reply.message
    assert app.scopes == []


async def test_an_empty_chunked_body_is_no_matter_where_bodies_mean_nothing(app: App) -> None:
    assert (await ask(Guard(app, settings()), method="DELETE", body=[])).status == 200


async def test_an_announced_body_over_the_limit_is_refused_before_it_is_read(app: App) -> None:
    reply = await ask(
        Guard(app, settings(max_body_bytes=2048)),
        JSON,
        (b"content-length", b"2049"),
        method="POST",
        body=[b"x" * 2049],
    )
    assert (reply.status, reply.code) == (413, "PAYLOAD_TOO_LARGE")
    assert json.loads(reply.body)["error"]["details"]["max_bytes"] == 2048
    assert reply.headers[b"connection"] == b"close"


async def test_a_chunked_body_over_the_limit_is_cut_off_while_it_is_read(app: App) -> None:
    guard = Guard(app, settings(max_body_bytes=2048))
    exact = await ask(guard, JSON, method="POST", body=[b"x" * 1024, b"y" * 1024])
    assert exact.status == 200
    over = await ask(guard, JSON, method="POST", body=[b"x" * 1024] * 1000)
    assert (over.status, over.code) == (413, "PAYLOAD_TOO_LARGE")
    assert over.complete
    assert len(app.bodies) == 1


async def test_a_body_that_takes_too_long_is_408(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mochi_project.guard.refusal.LINGER_SECONDS", 0.01)
    guard = Guard(app, settings(), body_deadline=0.02)
    reply = await ask(guard, JSON, method="POST", body=[b"{"], stall=True)
    assert (reply.status, reply.code) == (408, "REQUEST_TIMEOUT")
    assert reply.complete
    assert app.scopes == []


async def test_a_client_that_leaves_in_mid_body_gets_no_answer_and_reaches_nothing(
    app: App,
) -> None:
    queue: asyncio.Queue[Message] = asyncio.Queue()
    queue.put_nowait({"type": "http.request", "body": b"{", "more_body": True})
    queue.put_nowait({"type": "http.disconnect"})
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "headers": [(b"host", b"localhost"), JSON, (b"content-length", b"9")],
    }
    await Guard(app, settings())(scope, queue.get, send)
    assert sent == []
    assert app.scopes == []


async def test_an_unannounced_http2_body_is_read_too(app: App) -> None:
    guard = Guard(app, settings(max_body_bytes=1024))
    queue: list[Message] = [{"type": "http.request", "body": b"x" * 2000}]
    sent: list[Message] = []

    async def receive() -> Message:
        return queue.pop() if queue else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "2",
        "method": "POST",
        "path": "/",
        "headers": [(b"host", b"localhost"), JSON],
    }
    await guard(scope, receive, send)
    reply = Reply(sent)
    assert reply.status == 413
    assert b"connection" not in reply.headers
