"""Who may use the API by a key, and for what."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mochi_project.guard.guard import Guard
from mochi_project.keys.key import Key, new_key
from mochi_project.keys.ring import KeyRing
from mochi_project.keys.store import KeyStore
from mochi_project.principal import IN_SCOPE, OPERATOR, Principal
from sessions_app.store.file_records import FileRecords
from tests.unit.mochi_project.guard.asking import TOKEN, App, Reply, ask, settings

FORWARDED = (b"x-forwarded-for", b"203.0.113.7")
LOCAL = ("127.0.0.1", 50000)
PROXY_SECRET = "c" * 32


class Door:
    """A guard with keys."""

    def __init__(self, app: App, directory: Path) -> None:
        self.app = app
        self.store = KeyStore(FileRecords(directory))
        self.ring = KeyRing(self.store)

    async def key(self, owner: str = "anna", **values: Any) -> tuple[Key, str]:
        key, token = new_key(owner=owner, **values)
        await asyncio.to_thread(self.store.add, key)
        await self.ring.look()
        return key, token

    def guard(self, token: str | None = None, **values: Any) -> Guard:
        return Guard(self.app, settings(**values), token=token, keys=lambda: self.ring)

    async def ask(self, token: str | None, *headers: tuple[bytes, bytes], **more: Any) -> Reply:
        guard = more.pop("guard", None) or self.guard()
        shown = [bearer(token)] if token is not None else []
        return await ask(guard, *shown, *headers, **more)

    @property
    def principal(self) -> Principal | None:
        acting: Principal | None = self.app.scopes[-1][IN_SCOPE]
        return acting


def bearer(token: str) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {token}".encode()


@pytest.fixture
def door(app: App, tmp_path: Path) -> Door:
    return Door(app, tmp_path)


async def test_a_key_acts_for_its_owner_with_its_scopes(door: Door) -> None:
    key, token = await door.key(scopes=["read"], models=["qwen3:*"])

    for header in (bearer(token), (b"x-api-key", token.encode()), (b"api-key", token.encode())):
        assert (await ask(door.guard(), header)).status == 200
        assert door.principal == Principal("anna", frozenset({"read"}), key.id, ("qwen3:*",))


async def test_the_servers_own_token_and_open_loopback_stay_what_they_are(door: Door) -> None:
    assert (await door.ask(None, client=LOCAL)).status == 200
    assert door.principal == OPERATOR
    assert (await door.ask(TOKEN, guard=door.guard(TOKEN))).status == 200
    assert door.principal == OPERATOR


async def test_who_sends_a_key_that_is_not_known_does_not_act_for_another_owner(
    door: Door,
) -> None:
    await door.ring.look()
    _, token = new_key(owner="anna")

    assert (await door.ask(token, client=LOCAL)).status == 401
    assert (await door.ask("dummy", client=LOCAL)).status == 200
    told = door.guard(trusted_proxies=["127.0.0.1"], proxies_authenticate=True)
    assert (await door.ask(token, FORWARDED, client=LOCAL, guard=told)).status == 401


@pytest.mark.allow_blocking
async def test_a_key_is_good_from_the_moment_that_it_is_made(door: Door) -> None:
    await door.ring.look()
    key, token = new_key(owner="anna")
    door.store.add(key)

    assert (await door.ask(token)).status == 200
    _, token = door.store.rotate(key.id)
    assert (await door.ask(token)).status == 200


async def test_from_the_first_key_on_nobody_is_let_in_without_one(door: Door) -> None:
    await door.key()

    assert (await door.ask(None, client=LOCAL)).status == 401
    proxied = door.guard(trusted_proxies=["127.0.0.1"])
    assert (await door.ask(None, FORWARDED, client=LOCAL, guard=proxied)).status == 401
    told = door.guard(trusted_proxies=["127.0.0.1"], proxies_authenticate=True)
    assert (await door.ask(None, FORWARDED, client=LOCAL, guard=told)).status == 200
    assert (await door.ask(None, path="/api/v1/health")).status == 200
    assert door.principal is None


async def test_the_servers_own_token_works_while_the_keys_are_broken(
    door: Door, tmp_path: Path
) -> None:
    _, token = await door.key()
    await asyncio.to_thread((tmp_path / "keys.json").write_text, "{")
    door.ring = KeyRing(door.store)
    await door.ring.look()

    assert (await door.ask(TOKEN, guard=door.guard(TOKEN))).status == 200
    for given in (token, None):
        assert (await door.ask(given)).status == 401


async def test_who_has_no_right_key_is_told_the_same(door: Door) -> None:
    _, token = await door.key()
    wrong = [token[:-1], token + "A", f"mochi_k00000000_{token[16:]}", "secret", ""]

    replies = [await door.ask(each) for each in wrong]

    assert {(reply.status, reply.code, reply.message) for reply in replies} == {
        (401, "UNAUTHENTICATED", (await door.ask(None)).message)
    }
    assert door.app.scopes == []


async def test_a_key_that_has_ended_says_so_to_who_has_it(door: Door) -> None:
    revoked, first = await door.key()
    await asyncio.to_thread(door.store.revoke, revoked.id)
    _, second = await door.key(expires_at=datetime.now(UTC) - timedelta(seconds=1))

    for token in (first, second):
        reply = await door.ask(token)
        assert (reply.status, reply.code) == (401, "UNAUTHENTICATED")
        assert "expired or was revoked" in reply.message


async def test_tokens_of_several_keys_in_one_request_are_refused(door: Door) -> None:
    _, annas = await door.key()
    _, bens = await door.key("ben")

    reply = await door.ask(annas, (b"x-api-key", bens.encode()))
    assert (reply.status, reply.code) == (400, "BAD_REQUEST")
    assert (await door.ask(annas, (b"x-api-key", b"dummy"))).status == 200


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "/api/v1/sessions", "read"),
        ("POST", "/api/v1/chat/stream", "chat"),
        ("DELETE", "/api/v1/sessions/a1b2c3d4e5", "write"),
        ("POST", "/api/v1/chat/a1b2c3d4e5/confirm-tool", "approve"),
        ("POST", "/api/v1/tools/reload", "admin"),
        ("GET", "/api/v1/keys", "admin"),
        ("GET", "/metrics", "metrics"),
    ],
)
async def test_a_route_is_for_keys_with_its_scope(
    door: Door, method: str, path: str, scope: Any
) -> None:
    every: Sequence[Any] = ("read", "chat", "write", "approve", "admin", "metrics")
    _, fits = await door.key(scopes=[scope])
    _, lacks = await door.key(scopes=[each for each in every if each != scope])

    assert (await door.ask(fits, method=method, path=path)).status == 200
    body = [b"not even JSON"]
    reply = await door.ask(lacks, method=method, path=path, body=body)
    assert (reply.status, reply.code) == (403, "FORBIDDEN")
    assert f"'{scope}'" in reply.message
    assert len(door.app.scopes) == 1


async def test_a_missing_scope_is_told_in_the_format_of_a_protocol(door: Door) -> None:
    _, token = await door.key(scopes=["read"])

    reply = await door.ask(token, method="POST", path="/v1/chat/completions")

    assert reply.status == 403
    assert b'"type"' in reply.body
    assert b"'chat'" in reply.body


async def test_an_admin_may_act_for_another_owner_and_the_log_says_so(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    key, admin = await door.key("boss", scopes=["admin", "read"])
    _, token = await door.key(scopes=["read", "chat", "write", "approve"])

    assert (await door.ask(admin, (b"x-mochi-owner", b"anna"))).status == 200
    assert door.principal == Principal("anna", frozenset({"admin", "read"}), key.id)
    assert f"key {key.id} acts for anna: GET /api/v1/sessions" in caplog.text
    assert admin not in caplog.text

    refused = await door.ask(token, (b"x-mochi-owner", b"ben"))
    assert (refused.status, refused.code) == (403, "FORBIDDEN")
    wrong = [((b"x-mochi-owner", b"../ben"),), ((b"x-mochi-owner", b"ben"),) * 2]
    assert [(await door.ask(admin, *each)).status for each in wrong] == [400, 400]
    assert (await door.ask(None, (b"x-mochi-owner", b"ben"))).status == 401


def proxied(door: Door, **values: Any) -> Guard:
    return door.guard(
        trusted_proxies=["127.0.0.1"],
        owner_header="X-Forwarded-Email",
        owner_header_secret=PROXY_SECRET,
        **values,
    )


SECRET = (b"x-mochi-proxy-secret", PROXY_SECRET.encode())


def named(owner: bytes) -> tuple[bytes, bytes]:
    return b"x-forwarded-email", owner


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        (b"anna", "anna"),
        (b"anna@example.org", "anna-example.org-a3bf86"),
        (b"Anna@Example.org", "anna-example.org-a3bf86"),
        (b"anna-example.org-a3bf86", "anna-example.org-a3bf86-3383e4"),
        ("änna@example.org".encode(), "nna-example.org-abe478"),
    ],
)
async def test_a_trusted_proxy_names_the_owner(door: Door, name: bytes, owner: str) -> None:
    reply = await door.ask(None, SECRET, named(name), client=LOCAL, guard=proxied(door))

    assert reply.status == 200
    acting = door.principal
    assert acting is not None
    assert (acting.owner, acting.key_id) == (owner, None)
    assert acting.scopes == {"read", "chat", "write", "approve"}


@pytest.mark.parametrize(
    "headers",
    [
        (named(b"anna"),),
        (SECRET,),
        (SECRET, named(b"")),
        (SECRET, named(b"../anna")),
        (SECRET, named(b"Anna Smith")),
        (SECRET, named(b"default")),
        (SECRET, named(b"@")),
        (SECRET, named(b"x" * 65)),
        (SECRET, named(b"\xff@example.org" * 20)),
        (SECRET, named(b"anna"), named(b"anna")),
        (SECRET, SECRET, named(b"anna")),
        ((b"x-mochi-proxy-secret", b"wrong"), named(b"anna")),
        ((b"x-mochi-proxy-secret", b""), named(b"anna")),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/sessions", "/api/v1/health"])
async def test_anything_else_about_that_header_is_refused(
    door: Door, headers: tuple[tuple[bytes, bytes], ...], path: str
) -> None:
    reply = await door.ask(None, *headers, client=LOCAL, guard=proxied(door), path=path)

    assert (reply.status, reply.code) == (400, "BAD_REQUEST")
    assert door.app.scopes == []


async def test_nobody_but_the_proxy_names_an_owner(door: Door) -> None:
    for client in (("127.0.0.2", 50000), ("203.0.113.7", 50000), None):
        reply = await door.ask(None, SECRET, named(b"anna"), client=client, guard=proxied(door))
        assert (reply.status, reply.code) == (400, "BAD_REQUEST")


async def test_a_named_owner_and_a_key_are_of_one_owner(door: Door) -> None:
    _, annas = await door.key(scopes=["read"])
    _, bens = await door.key("ben")
    given = (SECRET, named(b"anna"))

    assert (await door.ask(annas, *given, client=LOCAL, guard=proxied(door))).status == 200
    assert door.principal is not None
    assert door.principal.scopes == {"read"}
    assert (await door.ask(bens, *given, client=LOCAL, guard=proxied(door))).status == 400
    guard = proxied(door, token=TOKEN)
    assert (await door.ask(TOKEN, *given, client=LOCAL, guard=guard)).status == 400


async def test_whom_the_proxy_does_not_name_needs_a_key(door: Door) -> None:
    for headers in ((), (FORWARDED,)):
        assert (await door.ask(None, *headers, client=LOCAL, guard=proxied(door))).status == 401
    _, token = await door.key()
    assert (await door.ask(token, FORWARDED, client=LOCAL, guard=proxied(door))).status == 200


async def test_whom_a_proxy_names_is_no_admin(door: Door) -> None:
    guard = proxied(door)
    for path in ("/api/v1/keys", "/metrics"):
        reply = await door.ask(None, SECRET, named(b"anna"), client=LOCAL, guard=guard, path=path)
        assert (reply.status, reply.code) == (403, "FORBIDDEN")
    acting = (b"x-mochi-owner", b"ben")
    reply = await door.ask(None, SECRET, named(b"anna"), acting, client=LOCAL, guard=guard)
    assert reply.status == 403
