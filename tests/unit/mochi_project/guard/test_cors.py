"""Pages of allowed origins may send the headers that they ask for; nothing odd is repeated."""

import pytest

from mochi_project.guard.cors import MOST_ASKED_BYTES
from mochi_project.guard.guard import Guard
from tests.unit.mochi_project.guard.asking import TOKEN, App, Reply, ask, settings

ORIGIN = b"http://localhost:3000"
OF_THE_OFFICIAL_SDK = (
    b"authorization,content-type,openai-organization,openai-project,x-stainless-arch,"
    b"x-stainless-lang,x-stainless-os,x-stainless-package-version,x-stainless-retry-count,"
    b"x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout"
)
USUAL = {b"Authorization", b"Content-Type", b"Idempotency-Key", b"Last-Event-ID"}


async def preflight(app: App, asked: bytes | None, *, origin: bytes = ORIGIN) -> Reply:
    headers = [(b"origin", origin), (b"access-control-request-method", b"POST")]
    if asked is not None:
        headers.append((b"access-control-request-headers", asked))
    guard = Guard(app, settings(), token=TOKEN)
    return await ask(guard, *headers, method="OPTIONS", path="/v1/chat/completions")


@pytest.mark.parametrize("asked", [OF_THE_OFFICIAL_SDK, b"x-mochi-tools", b"a, b ,c\t,d"])
async def test_a_page_of_an_allowed_origin_may_send_what_it_asks_for(
    app: App, asked: bytes
) -> None:
    reply = await preflight(app, asked)

    assert reply.status == 204
    assert reply.headers[b"access-control-allow-headers"] == asked
    assert reply.headers[b"access-control-allow-origin"] == ORIGIN
    assert app.scopes == []


@pytest.mark.parametrize(
    "asked",
    [
        None,
        b"",
        b",",
        b"a,,b",
        b"a b",
        b"a\r\nset-cookie: x=1",
        b"a\x00",
        b"a\xff",
        b"<script>",
        b"a;b",
        b'"a"',
        b"x-" + b"a" * MOST_ASKED_BYTES,
        b"," * 60_000,
        b"a, " * 20_000,
    ],
)
async def test_what_is_no_list_of_names_is_not_repeated(app: App, asked: bytes | None) -> None:
    reply = await preflight(app, asked)

    assert reply.status == 204
    assert {*reply.headers[b"access-control-allow-headers"].split(b", ")} == USUAL


@pytest.mark.parametrize("origin", [b"https://evil.example", b"null", b"http://localhost:3000\x00"])
async def test_a_page_of_another_origin_may_send_nothing(app: App, origin: bytes) -> None:
    reply = await preflight(app, b"authorization", origin=origin)

    assert reply.status == 403
    assert not any(name.startswith(b"access-control") for name in reply.headers)
    assert app.scopes == []
