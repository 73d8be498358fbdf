"""Requests to a guard without a server, and the answers."""

import asyncio
import json
from typing import Any

from mochi_project.asgi_types import Message, Receive, Scope, Send
from mochi_project.configuration.loading import MochiSettings
from mochi_project.guard.guard import Guard

JSON = (b"content-type", b"application/json")
TOKEN = "s3cret-token"


class App:
    """Answers 200 and remembers what it was asked, and what it received after the body."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.bodies: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = [(b"Content-Type", b"text/plain")]
        self.after_body: Message | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if scope["type"] != "http":
            return
        message = await receive()
        assert message["type"] == "http.request"
        assert not message.get("more_body")
        self.bodies.append(message.get("body", b""))
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})
        await send({"type": "http.response.body", "body": b"ok", "more_body": True})
        await send({"type": "http.response.body"})
        self.after_body = await receive()


class Reply:
    def __init__(self, sent: list[Message]) -> None:
        self.sent = sent
        self.status = sent[0]["status"] if sent else None
        self.header_list = [(n.lower(), v) for n, v in sent[0]["headers"]] if sent else []
        self.headers = dict(self.header_list)
        self.body = b"".join(message.get("body", b"") for message in sent[1:])
        self.complete = bool(sent) and not sent[-1].get("more_body", False)

    @property
    def code(self) -> str:
        error = json.loads(self.body)["error"]
        assert set(error) == {"code", "message", "details"}
        assert error["message"]
        assert error["details"]["retryable"] is False
        return str(error["code"])

    @property
    def message(self) -> str:
        return str(json.loads(self.body)["error"]["message"])


def settings(**values: Any) -> MochiSettings:
    return MochiSettings(_env_file=None, **values)


async def ask(
    guard: Guard,
    *headers: tuple[bytes, bytes],
    method: str = "GET",
    path: str = "/api/v1/sessions",
    body: list[bytes] | None = None,
    host: bytes | None = b"localhost:8000",
    stall: bool = False,
    **scope: Any,
) -> Reply:
    incoming: list[Message] = [
        {"type": "http.request", "body": chunk, "more_body": True} for chunk in body or []
    ]
    if not stall:
        incoming.append({"type": "http.request", "body": b"", "more_body": False})
        incoming.append({"type": "http.disconnect"})
    queue: asyncio.Queue[Message] = asyncio.Queue()
    for message in incoming:
        queue.put_nowait(message)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    all_headers = list(headers)
    if host is not None:
        all_headers.insert(0, (b"host", host))
    if body is not None and not any(name == b"content-length" for name, _ in headers):
        all_headers.append((b"transfer-encoding", b"chunked"))
    await guard(
        {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": all_headers,
            **scope,
        },
        queue.get,
        send,
    )
    return Reply(sent)
