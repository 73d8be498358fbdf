"""An MCP server that wants a login, and its authorization server, both strict."""

import asyncio
import base64
import hashlib
import json
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from tests.unit.tools_app.mcp.http_servers import older_server, reply

Handler = Callable[[str, str, dict[str, str], bytes], bytes | None]


def answer_json(status: int, value: Any, headers: dict[str, str] | None = None) -> bytes:
    return reply(status, json.dumps(value).encode(), headers)


@dataclass
class AuthorizationServer:
    """Issues tokens that rotate: a refresh token that comes twice ends the login (RFC 9700)."""

    url: str = ""
    lifetime: int = 3600
    knows_registrations: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)
    iss: str | None = None
    fails: bool | int = False
    gate: asyncio.Event | None = None
    ignores_refreshes: bool = False
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    refresh_tokens: dict[str, str] = field(default_factory=dict)
    spent: set[str] = field(default_factory=set)
    access_tokens: set[str] = field(default_factory=set)
    scope_of: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)

    def authorize(self, url: str, **refusal: str) -> str:
        """Do what a person's browser does; return the address that it is sent back to."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        client = self.clients[query["client_id"]]
        assert query["redirect_uri"] in client["redirect_uris"]
        assert query["code_challenge_method"] == "S256"
        assert query["response_type"] == "code"
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        answer = refusal or {"code": code, "iss": self.iss or self.url}
        return f"{query['redirect_uri']}?{urlencode({**answer, 'state': query['state']})}"

    def handle(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes | None:
        form = dict(parse_qsl(body.decode())) if b"=" in body[:40] else {}
        self.asked.append((path, form))
        if path == "/.well-known/oauth-authorization-server":
            return answer_json(200, self.document())
        if path == "/register" and self.knows_registrations:
            client_id = f"client-{len(self.clients)}"
            self.clients[client_id] = json.loads(body)
            client = {**json.loads(body), "client_id": client_id}
            return answer_json(201, {**client, "token_endpoint_auth_method": "none"})
        if path == "/token":
            if self.fails:
                return answer_json(503 if self.fails is True else self.fails, {"error": "no"})
            return self.token(form)
        if path == "/revoke":
            self.revoked.append(form["token"])
            self.refresh_tokens.clear()
            self.access_tokens.clear()
            return reply(200, b"")
        return None

    def document(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "revocation_endpoint": f"{self.url}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }

    def token(self, form: dict[str, str]) -> bytes:
        if form["grant_type"] == "client_credentials":
            return self.issue("", form.get("scope", ""))
        if form["grant_type"] == "refresh_token":
            old = form["refresh_token"]
            if self.ignores_refreshes:
                return reply(503, b"")
            if old in self.spent:
                self.refresh_tokens.clear()
                self.access_tokens.clear()
            if old not in self.refresh_tokens:
                return answer_json(400, {"error": "invalid_grant"})
            self.spent.add(old)
            return self.issue(self.refresh_tokens.pop(old), "")
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or challenge != asked["code_challenge"]:
            return answer_json(400, {"error": "invalid_grant"})
        assert form["redirect_uri"] == asked["redirect_uri"]
        assert form.get("client_id") == asked["client_id"]
        assert form.get("resource") == asked.get("resource")
        return self.issue(asked["client_id"], asked.get("scope", ""))

    async def wait(self, body: bytes) -> None:
        """Hold renewed tokens back while there is a gate."""
        if self.ignores_refreshes and b"refresh_token" in body:
            await asyncio.Event().wait()  # until the end
        if self.gate is not None and b"refresh_token" in body:
            await self.gate.wait()

    def issue(self, client_id: str, scope: str) -> bytes:
        access, refresh = f"access-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        self.access_tokens.add(access)
        self.scope_of[access] = scope
        tokens = {"access_token": access, "token_type": "bearer", "expires_in": self.lifetime}
        if client_id:
            self.refresh_tokens[refresh] = client_id
            tokens["refresh_token"] = refresh
        return answer_json(200, tokens)


@dataclass
class ProtectedServer:
    """An MCP server that answers only with a token of its authorization server."""

    logins: AuthorizationServer
    url: str = ""
    resource: str = ""
    challenge: str = 'Bearer resource_metadata="{origin}/.well-known/oauth-protected-resource/mcp"'
    demanded_scope: str = ""
    grants: str = ""
    redirect: str = ""
    tokens: list[str | None] = field(default_factory=list)

    def handle(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes | None:
        origin = self.url.removesuffix("/mcp")
        if path == "/.well-known/oauth-protected-resource/mcp":
            resource = self.resource or self.url
            servers = [self.logins.url]
            return answer_json(200, {"resource": resource, "authorization_servers": servers})
        if path != "/mcp":
            return None
        if self.redirect:
            return reply(307, b"", {"Location": self.redirect})
        token = headers.get("authorization", "").removeprefix("Bearer ") or None
        self.tokens.append(token)
        challenge = self.challenge.replace("{origin}", origin)
        if token not in self.logins.access_tokens:
            return reply(401, b"", {"WWW-Authenticate": challenge})
        message = json.loads(body or b"{}")
        granted = self.grants or self.logins.scope_of[token]
        lacking = set(self.demanded_scope.split()) - set(granted.split())
        if message.get("method") == "tools/call" and lacking:
            more = f'{challenge}, error="insufficient_scope", scope="{self.demanded_scope}"'
            return reply(403, b"", {"WWW-Authenticate": more})
        ran = {"content": [{"type": "text", "text": "ran"}]}
        return older_server(lambda: ran)(method, message, headers)


async def no_wait(_: bytes) -> None:
    """Answer at once."""


@asynccontextmanager
async def serving(
    *handlers: Handler, wait: Callable[[bytes], Awaitable[None]] = no_wait
) -> AsyncIterator[str]:
    """Answer requests by the first handler that does; yield the origin."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *rest = head.strip().split("\r\n")
            method, target, _ = first.split()
            headers = {n.lower(): value for n, value in (line.split(": ", 1) for line in rest)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            path = target.partition("?")[0]
            answers = (handle(method, path, headers, body) for handle in handlers)
            answer = next((each for each in answers if each), reply(404, b""))
            await wait(body)
            writer.write(answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@asynccontextmanager
async def protected(**changes: Any) -> AsyncIterator[ProtectedServer]:
    """Serve an MCP server and its authorization server, each at an origin of its own."""
    logins = AuthorizationServer(**changes)
    server = ProtectedServer(logins)
    async with (
        serving(logins.handle, wait=logins.wait) as logins.url,
        serving(server.handle) as origin,
    ):
        server.url = f"{origin}/mcp"
        yield server


@contextmanager
def protected_in_thread() -> Iterator[ProtectedServer]:
    """Serve them in a thread of their own."""
    ready, leave = threading.Event(), asyncio.Event()
    found: dict[str, Any] = {}

    async def serve() -> None:
        async with protected() as found["server"]:
            found["loop"] = asyncio.get_running_loop()
            ready.set()
            await leave.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(30)
    yield found["server"]
    found["loop"].call_soon_threadsafe(leave.set)
    thread.join(30)
