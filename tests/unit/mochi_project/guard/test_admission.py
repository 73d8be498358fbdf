"""Who may use the API: whoever has the token, and whom a trusted proxy lets in."""

import pytest

from mochi_project.guard.guard import Guard, is_admitted
from tests.unit.mochi_project.guard.asking import TOKEN, App, ask, settings

FORWARDED = (b"x-forwarded-for", b"203.0.113.7")


async def test_what_a_proxy_passes_on_without_a_token_is_refused_saying_what_to_set(
    app: App,
) -> None:
    reply = await ask(Guard(app, settings()), FORWARDED, client=("127.0.0.1", 50000))
    assert (reply.status, reply.code) == (403, "FORBIDDEN")
    assert "x-forwarded-for" in reply.message
    assert "MOCHI_API_TOKEN" in reply.message
    assert "MOCHI_TRUSTED_PROXIES" in reply.message
    assert app.scopes == []


async def test_a_trusted_proxy_or_a_token_opens_the_door(app: App) -> None:
    trusting = Guard(app, settings(trusted_proxies=["127.0.0.1"]))
    assert (await ask(trusting, FORWARDED, client=("127.0.0.1", 50000))).status == 200
    assert (await ask(trusting, FORWARDED, client=("127.0.0.2", 50000))).status == 403
    shown = (b"authorization", b"Bearer " + TOKEN.encode())
    assert (await ask(Guard(app, settings(), token=TOKEN), FORWARDED, shown)).status == 200


LOCAL = ("127.0.0.1", 50000)


async def test_what_a_trusted_proxy_passes_on_needs_no_token(app: App) -> None:
    guard = Guard(app, settings(trusted_proxies=["127.0.0.1", "unix"]), token=TOKEN)
    assert (await ask(guard, FORWARDED, client=LOCAL)).status == 200
    assert (await ask(guard, FORWARDED, client=None)).status == 200
    own = (b"authorization", b"Bearer of the proxy's own users")
    assert (await ask(guard, FORWARDED, own, client=LOCAL)).status == 200


@pytest.mark.parametrize("claim", [b"127.0.0.1", b"127.0.0.1, 127.0.0.1", b"unix", b"::1", b""])
async def test_nobody_becomes_a_trusted_proxy_by_a_header(app: App, claim: bytes) -> None:
    guard = Guard(app, settings(trusted_proxies=["127.0.0.1", "::1", "unix"]), token=TOKEN)
    for name in (b"x-forwarded-for", b"forwarded", b"x-real-ip", b"x-forwarded-host"):
        reply = await ask(guard, (name, claim), client=("203.0.113.7", 50000))
        assert (reply.status, reply.code) == (401, "UNAUTHENTICATED")
    assert app.scopes == []


async def test_other_programs_at_a_trusted_proxys_address_need_the_token(app: App) -> None:
    guard = Guard(app, settings(trusted_proxies=["127.0.0.1", "unix"]), token=TOKEN)
    for client in (LOCAL, None):
        assert (await ask(guard, client=client)).status == 401


async def test_proxies_that_do_not_authenticate_pass_on_who_has_the_token(app: App) -> None:
    believed = settings(trusted_proxies=["127.0.0.1"], proxies_authenticate=False)
    guard = Guard(app, believed, token=TOKEN)
    shown = (b"authorization", b"Bearer " + TOKEN.encode())
    assert (await ask(guard, FORWARDED, client=LOCAL)).status == 401
    assert (await ask(guard, FORWARDED, shown, client=LOCAL)).status == 200
    assert (await ask(Guard(app, believed), FORWARDED, client=LOCAL)).status == 403


async def test_a_proxy_may_ask_for_health_and_docs(app: App) -> None:
    reply = await ask(Guard(app, settings()), FORWARDED, path="/api/v1/health")
    assert reply.status == 200


@pytest.mark.parametrize(
    ("token", "headers", "admitted"),
    [
        (None, (), True),
        (None, (FORWARDED,), False),
        (TOKEN, (), False),
        (TOKEN, ((b"authorization", b"Bearer wrong"),), False),
        (TOKEN, ((b"x-api-key", TOKEN.encode()),), True),
    ],
)
async def test_health_is_told_whether_its_client_may_use_the_rest(
    app: App, token: str | None, headers: tuple[tuple[bytes, bytes], ...], admitted: bool
) -> None:
    await ask(Guard(app, settings(), token=token), *headers, path="/api/v1/health", client=LOCAL)
    assert is_admitted(app.scopes[0]) is admitted


async def test_nobody_is_admitted_where_no_guard_says_so() -> None:
    assert not is_admitted({"type": "http"})
