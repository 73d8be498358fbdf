"""The guard: decides before Django whether a request may come in (DESIGN section 12).

Pure ASGI, and cheap: one pass over the raw headers, everything that can be known beforehand is
computed once. A request's body is read here, against its limit and its deadline, so that neither
a large nor a slow one ever occupies Django. Every refusal is the one JSON envelope.
"""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from mochi_project.config import MochiSettings
from mochi_project.edge.added_headers import AddingHeaders, Headers
from mochi_project.edge.exchange import Exchange
from mochi_project.edge.origins import AccessPolicy
from mochi_project.errors import STATUS_OF_CODE, envelope

Message = Mapping[str, Any]
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_HEAD_BYTES = 64 * 1024
# How long the rest of a refused body is read and thrown away, so that the client, which may still
# be sending, gets to read the refusal instead of a connection reset.
LINGER_SECONDS = 1.0

TOKEN_FREE_PATHS = frozenset({"/api/v1/health", "/api/v1/docs", "/api/v1/openapi.json"})
TOKEN_FREE_PREFIX = "/api/v1/docs/static/"  # noqa: S105 - a path

SECURITY_HEADERS: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
)
_ALWAYS: Headers = (*SECURITY_HEADERS, (b"vary", b"Origin"))
_PREFLIGHT_HEADERS: Headers = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (
        b"access-control-allow-headers",
        b"Authorization, Content-Type, Idempotency-Key, Last-Event-ID",
    ),
    (b"access-control-max-age", b"600"),
)
_READABLE_BY_PAGES = (b"access-control-expose-headers", b"Retry-After")

_WATCHED = frozenset(
    {
        b"host",
        b"origin",
        b"authorization",
        b"content-type",
        b"content-length",
        b"content-encoding",
        b"transfer-encoding",
        b"access-control-request-method",
        b"sec-fetch-site",
        b"sec-fetch-mode",
        b"sec-fetch-dest",
    }
)

logger = logging.getLogger(__name__)


class Refused(Exception):
    """The request may not come in; carries what the envelope says."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class ClientLeft(Exception):
    """The client closed the connection before its request was complete."""


class Guard:
    """ASGI middleware that lets only admissible requests through to ``app``.

    Args:
        app: The application behind the guard.
        settings: Allowed hosts, origins and the body limit are taken from here.
        token: What ``Authorization: Bearer`` must carry; None asks for nothing.
        body_deadline: Seconds that a whole request body may take.

    Raises:
        ConfigurationError: ``MOCHI_ALLOWED_HOSTS`` or ``MOCHI_CORS_ORIGINS`` is unusable.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: MochiSettings,
        *,
        token: str | None = None,
        body_deadline: float = 30.0,
    ) -> None:
        self._app = app
        self._token = token.encode() if token else None
        self._max_body = settings.max_body_bytes
        self._body_deadline = body_deadline
        # A name to listen on was chosen by the operator, so requests for it are meant.
        listening_on = [settings.host] if settings.host and ":" not in settings.host else []
        self._policy = AccessPolicy(
            allowed_hosts=[*settings.allowed_hosts, *listening_on],
            cors_origins=settings.cors_origins,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope: judge HTTP, refuse WebSockets, pass the lifespan on."""
        if scope["type"] == "http":
            await self._handle(scope, receive, send)
        elif scope["type"] == "websocket":
            await _refuse_websocket(scope, send)
        else:
            await self._app(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        head, twice, size = _read_head(scope)
        chunked = b"transfer-encoding" in head
        length = head.get(b"content-length", b"")
        has_body = chunked or length not in {b"", b"0"} or _may_hide_a_body(scope)
        extra = _ALWAYS
        try:
            self._check_head(scope, head, twice, size)
            origin = head.get(b"origin")
            if origin is not None:  # and allowed, or it would have been refused
                extra = (*extra, (b"access-control-allow-origin", origin), _READABLE_BY_PAGES)
                if b"access-control-request-method" in head and scope["method"] == "OPTIONS":
                    await _answer_preflight(send, extra)
                    return
            self._check_token(scope, head)
            if has_body:
                if chunked:
                    # Trailers are appended to this very list after they were judged here.
                    scope = {**scope, "headers": list(scope["headers"])}
                _check_encoding(head)
                is_json = _is_json(head.get(b"content-type", b""))
                if length:
                    self._check_length(length, is_json=is_json)
                receive = await self._read_body(scope, receive, is_json=is_json)
        except Refused as refusal:
            logger.info("refused (%s): %s", refusal.code, refusal.message)
            await _refuse(refusal, scope, receive, send, extra, has_body=has_body)
            return
        except ClientLeft:
            return
        await self._app(scope, receive, AddingHeaders(extra, send))

    def _check_head(self, scope: Scope, head: dict[bytes, bytes], twice: bytes, size: int) -> None:
        """Refuse by what a browser, or whoever misuses one, can't forge.

        Raises:
            Refused: The request may not come in.
        """
        if size > MAX_HEAD_BYTES:
            raise Refused(
                "HEADERS_TOO_LARGE",
                f"The request's headers are larger than {MAX_HEAD_BYTES} bytes.",
            )
        if twice:
            raise Refused("BAD_REQUEST", f"The header {twice.decode()} was sent twice.")
        host = head.get(b"host", b"")
        if not self._policy.allows_host(host):
            raise Refused(
                "FORBIDDEN",
                f"This server does not answer to the host name {_shown(host)}. "
                "If it is yours, add it to MOCHI_ALLOWED_HOSTS.",
            )
        origin = head.get(b"origin")
        if origin is not None:
            if not self._policy.allows_origin(origin, host):
                raise Refused(
                    "FORBIDDEN",
                    f"Pages of the origin {_shown(origin)} may not call this server. "
                    "If it is yours, add it to MOCHI_CORS_ORIGINS.",
                )
        elif head.get(b"sec-fetch-site", b"none") not in {b"none", b"same-origin"} and not (
            scope["method"] in {"GET", "HEAD"}
            and head.get(b"sec-fetch-mode") == b"navigate"
            and head.get(b"sec-fetch-dest") == b"document"
        ):
            raise Refused(
                "FORBIDDEN", "Another site's page made this request; only its own pages may."
            )

    def _check_token(self, scope: Scope, head: dict[bytes, bytes]) -> None:
        if self._token is None:
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in TOKEN_FREE_PATHS or path.startswith(TOKEN_FREE_PREFIX):
            return
        scheme, _, given = head.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
            raise Refused(
                "UNAUTHENTICATED",
                "This server wants a token: send the header 'Authorization: Bearer <token>'.",
            )

    def _check_length(self, length: bytes, *, is_json: bool) -> None:
        if not length.isdigit():
            raise Refused("BAD_REQUEST", "The header content-length is no number.")
        if int(length) > self._max_body:
            raise self._too_large()
        if not is_json:
            raise _not_json()

    async def _read_body(self, scope: Scope, receive: Receive, *, is_json: bool) -> Receive:
        """Read the whole body and return a ``receive`` that gives it again, then disconnects.

        Raises:
            Refused: The body is too large, too slow, or not declared as JSON.
            ClientLeft: The client left before the body was complete.
        """
        exchange = Exchange.of(scope)
        if exchange is not None and exchange.body_is_here:
            return _replaying(await self._receive_body(receive, is_json=is_json), receive)
        try:
            async with asyncio.timeout(self._body_deadline):
                body = await self._receive_body(receive, is_json=is_json)
        except TimeoutError as error:
            raise Refused(
                "REQUEST_TIMEOUT",
                f"The request's body took longer than {self._body_deadline:g} seconds.",
            ) from error
        return _replaying(body, receive)

    async def _receive_body(self, receive: Receive, *, is_json: bool) -> bytes:
        chunks: list[bytes] = []
        left = self._max_body
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientLeft
            chunk = message.get("body", b"")
            left -= len(chunk)
            if left < 0:
                raise self._too_large()
            if chunk:
                if not is_json:
                    raise _not_json()
                chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _too_large(self) -> Refused:
        return Refused(
            "PAYLOAD_TOO_LARGE",
            f"The request's body is larger than {self._max_body} bytes (MOCHI_MAX_BODY_BYTES).",
            max_bytes=self._max_body,
        )


def _read_head(scope: Scope) -> tuple[dict[bytes, bytes], bytes, int]:
    """Return the headers that matter here, one that came twice (or nothing), and the size."""
    head: dict[bytes, bytes] = {}
    twice = b""
    size = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    for name, value in scope["headers"]:
        size += len(name) + len(value) + 4
        if name in _WATCHED:
            if name in head and name != b"transfer-encoding":
                twice = name
            head[name] = value
    return head, twice, size


def _may_hide_a_body(scope: Scope) -> bool:
    """Whether a body may come without being announced, as HTTP/2 and later allow."""
    return scope.get("http_version", "1.1")[0] != "1" and scope["method"] not in {"GET", "HEAD"}


def _is_json(content_type: bytes) -> bool:
    media_type, _, parameters = content_type.partition(b";")
    if media_type.strip().lower() != b"application/json":
        return False
    charset = parameters.strip().lower()
    return not charset.startswith(b"charset=") or charset[8:].strip(b'" ') in {b"utf-8", b"utf8"}


def _check_encoding(head: dict[bytes, bytes]) -> None:
    if head.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Refused(
            "UNSUPPORTED_MEDIA_TYPE", "Compressed bodies are not accepted: send plain JSON."
        )


def _not_json() -> Refused:
    return Refused(
        "UNSUPPORTED_MEDIA_TYPE",
        "Bodies must be JSON in UTF-8: send the header 'Content-Type: application/json'.",
    )


def _shown(value: bytes) -> str:
    """Return what a client sent, short and printable."""
    return repr(value[:100].decode("latin-1"))


def _replaying(body: bytes, receive: Receive) -> Receive:
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _answer_preflight(send: Send, extra: Headers) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": 204,
            "headers": [
                header for header in (*extra, *_PREFLIGHT_HEADERS) if header != _READABLE_BY_PAGES
            ],
        }
    )
    await send({"type": "http.response.body"})


async def _refuse(
    refusal: Refused,
    scope: Scope,
    receive: Receive,
    send: Send,
    extra: Headers,
    *,
    has_body: bool,
) -> None:
    body = orjson.dumps(envelope(refusal.code, refusal.message, details=refusal.details))
    headers = [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        *extra,
    ]
    if refusal.code == "UNAUTHENTICATED":
        headers.append((b"www-authenticate", b'Bearer realm="mochi-server"'))
    if has_body and scope.get("http_version", "1.1")[0] == "1":
        headers.append((b"connection", b"close"))
    await send(
        {
            "type": "http.response.start",
            "status": STATUS_OF_CODE[refusal.code],
            "headers": headers,
        }
    )
    await send({"type": "http.response.body", "body": body, "more_body": has_body})
    if has_body:
        await _discard_rest(receive)
        await send({"type": "http.response.body"})


async def _discard_rest(receive: Receive) -> None:
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while (await receive()).get("more_body", False):
                pass
    except TimeoutError:
        logger.debug("the client was still sending the body of a refused request")


async def _refuse_websocket(scope: Scope, send: Send) -> None:
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    body = orjson.dumps(
        envelope("FORBIDDEN", "This server speaks no WebSocket: streams are server-sent events.")
    )
    await send(
        {
            "type": "websocket.http.response.start",
            "status": STATUS_OF_CODE["FORBIDDEN"],
            "headers": [(b"content-type", b"application/json; charset=utf-8"), *SECURITY_HEADERS],
        }
    )
    await send({"type": "websocket.http.response.body", "body": body})
