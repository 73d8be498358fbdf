"""Checks requests before they reach Django.

Pure ASGI, and cheap: one pass over the raw headers, with everything possible precomputed. Bodies
are read here, with a size limit and a deadline, so that large or slow ones never occupy Django.
What a path needs is declared at its route. Refusals have the JSON error envelope; those of an API
beside the native one have its format, and every response there has an ``x-request-id``
(docs/decisions/0059).
"""

import logging
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import orjson

from mochi_project.asgi_types import ASGIApp, Receive, Scope, Send
from mochi_project.configuration.config import ServerSettings
from mochi_project.errors import messages
from mochi_project.errors.statuses import STATUS_OF_CODE, envelope
from mochi_project.exchange import Exchange
from mochi_project.guard import cors
from mochi_project.guard.admission import KEY_HEADERS, Admission
from mochi_project.guard.origins import AccessPolicy
from mochi_project.guard.proxies import TrustedProxies
from mochi_project.guard.refusal import MAX_HEAD_BYTES, Refused, send_crash, send_refusal
from mochi_project.guard.request_body import BodyReader
from mochi_project.guard.request_ids import request_id
from mochi_project.guard.response_headers import AddingHeaders, Headers
from mochi_project.guard.root_path import RootPath, path_below_root
from mochi_project.guard.streamed_body import ClientLeft, StreamedBody
from mochi_project.keys.key import ScopeMissing
from mochi_project.keys.ring import KeyRing
from mochi_project.memory.large_bodies import leave_large_body
from mochi_project.principal import IN_SCOPE, Principal
from mochi_project.routing import Needs, route_table

FORM_BYTES = 64 * 1024
"""The bytes allowed for the headers and fields of a form around an upload."""

SECURITY_HEADERS: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
)
_ALWAYS: Headers = (*SECURITY_HEADERS, (b"vary", b"Origin"))

_WATCHED = frozenset(
    {
        b"host",
        b"origin",
        b"authorization",
        *KEY_HEADERS,
        b"x-request-id",
        b"content-type",
        b"content-length",
        b"content-encoding",
        b"transfer-encoding",
        b"access-control-request-method",
        b"access-control-request-headers",
        b"sec-fetch-site",
        b"sec-fetch-mode",
        b"sec-fetch-dest",
    }
)

_MAY_REPEAT = frozenset({b"transfer-encoding", b"x-request-id"})
_FORM = b"application/x-www-form-urlencoded"

logger = logging.getLogger(__name__)


def is_admitted(scope: Scope) -> bool:
    """Return whether the guard lets a client use routes that need a token (docs/decisions/0162)."""
    return scope.get(IN_SCOPE) is not None


class Guard:
    """Passes only admissible requests to an ASGI application.

    Args:
        app: The application behind the guard.
        settings: The configuration of allowed hosts, origins and body limits.
        token: The token of who runs the server, in ``Authorization: Bearer``, ``x-api-key`` or
            ``api-key``; None without.
        keys: Returns the keys of others, once there are services.
        body_deadline: The time limit in seconds for a whole request body.

    Raises:
        ConfigurationError: ``MOCHI_ALLOWED_HOSTS`` or ``MOCHI_CORS_ORIGINS`` is unusable.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        *,
        token: str | None = None,
        keys: Callable[[], KeyRing | None] = lambda: None,
        body_deadline: float = 30.0,
    ) -> None:
        self._app = app
        self._settings = settings
        self._routes = route_table()
        self._readers: dict[str, BodyReader] = {}
        self._body_deadline = body_deadline
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._admission = Admission(settings, self._proxies, token, keys)
        self._watched = _WATCHED | self._admission.headers
        self._root_path = RootPath(settings.root_path, self._proxies)
        # The name to listen on was chosen by the operator, so it is an allowed host.
        listening_on = [settings.host] if settings.host and ":" not in settings.host else []
        public = urlsplit(settings.public_url or "").hostname
        if public and ":" not in public:
            listening_on.append(public)
        self._policy = AccessPolicy(
            allowed_hosts=[*settings.allowed_hosts, *listening_on],
            cors_origins=settings.cors_origins,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope: check HTTP, refuse WebSockets, pass lifespan events on."""
        if scope["type"] == "http":
            await self._handle(self._root_path.applied_to(scope), receive, send)
        elif scope["type"] == "websocket":
            await _refuse_websocket(scope, send)
        else:
            await self._app(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        head, twice, size = _read_head(scope, self._watched)
        has_body = _has_body(scope, head)
        path = path_below_root(scope)
        extra = _ALWAYS
        needs = self._routes.needs_of(path, scope["method"])
        if self._routes.api_of(path) is not None:
            extra = (*extra, (b"x-request-id", request_id(head.get(b"x-request-id"))))
        try:
            is_form = needs.body == "form" and scope["method"] == "POST"
            if is_form and head.get(b"origin") == b"null":
                # Of a page that tells nobody where it is (`no-referrer`). Of foreign pages, too,
                # if they are in a sandbox; Sec-Fetch-Site, which is checked next, tells which.
                del head[b"origin"]
            self._check_head(scope, head, twice, size)
            origin = head.get(b"origin")
            if origin is not None:  # allowed, as it was not refused
                if b"access-control-request-method" in head and scope["method"] == "OPTIONS":
                    asked = head.get(b"access-control-request-headers", b"")
                    await cors.answer_preflight(origin, asked, extra, send)
                    return
                extra = (*extra, *cors.response_headers(origin))
            scope = {**scope, IN_SCOPE: await self._principal_of(scope, head, needs)}
            _check_server(scope)
            if has_body or (needs.body == "stream" and scope["method"] == "POST"):
                scope, receive = await self._with_body(scope, needs, receive, head)
        except Refused as refusal:
            logger.info("refused (%s): %s", refusal.code, refusal.message)
            await send_refusal(refusal, scope, receive, send, extra, has_body=has_body)
            return
        except ClientLeft:
            return
        if has_body and (body := StreamedBody.of(scope)) is not None:
            send = body.closing(send)
        adding = AddingHeaders(extra, send)
        try:
            await self._app(scope, receive, adding)
        except Exception:
            if not adding.started:
                await send_crash(path, adding)
            raise  # the server logs it
        finally:
            leave_large_body(scope)

    async def _with_body(
        self, scope: Scope, needs: Needs, receive: Receive, head: dict[bytes, bytes]
    ) -> tuple[Scope, Receive]:
        """Read a request's body; return the scope, and a ``receive`` that replays the body.

        Raises:
            Refused: The body is not admissible.
            ClientLeft: The client disconnected before the body was complete.
        """
        if needs.body == "stream":  # for any method: the view, or its absence, decides
            max_bytes = getattr(self._settings, needs.limit)
            body = StreamedBody(
                receive,
                head,
                max_bytes=max_bytes + FORM_BYTES,
                silence_seconds=self._body_deadline,
                too_large=partial(_too_large, needs, max_bytes),
            )
            return body.noted_in(scope), body.receive
        noted = {**scope}
        # Pages of other origins are refused by then.
        if needs.body == "form":
            if head.get(b"content-type") != _FORM:
                raise Refused("UNSUPPORTED_MEDIA_TYPE", "This page takes its own form alone.")
            head = {**head, b"content-type": b"application/json"}  # of what the reader lets in
        elif needs.untyped and head.get(b"content-type", _FORM) == _FORM:
            head = {**head, b"content-type": b"application/json"}
        if b"transfer-encoding" in head:
            # A copy: trailers are appended to the original list after the check here.
            noted["headers"] = list(scope["headers"])
        try:
            return noted, await self._reader_of(needs.limit).read(noted, receive, head)
        except BaseException:
            leave_large_body(noted)
            raise

    def _reader_of(self, limit: str) -> BodyReader:
        """Return what reads bodies up to the limit of a setting."""
        reader = self._readers.get(limit)
        if reader is None:
            usual = self._settings.max_body_bytes
            reader = self._readers[limit] = BodyReader(
                max_bytes=max(usual, getattr(self._settings, limit)),
                large_bytes=usual,
                deadline=self._body_deadline,
                variable=_variable(limit),
            )
        return reader

    def _check_head(self, scope: Scope, head: dict[bytes, bytes], twice: bytes, size: int) -> None:
        """Check headers, including those that a web page can't forge.

        Raises:
            Refused: The request is not admissible.
        """
        if size > MAX_HEAD_BYTES:
            raise Refused(
                "HEADERS_TOO_LARGE",
                messages.headers_too_large(MAX_HEAD_BYTES),
            )
        if twice:
            raise Refused("BAD_REQUEST", f"The header {twice.decode()} was sent twice.")
        host = head.get(b"host", b"")
        if not self._policy.allows_host(host):
            raise Refused(
                "FORBIDDEN",
                f"This server does not answer to the host name {_quoted(host)}. "
                "If it is yours, add it to MOCHI_ALLOWED_HOSTS.",
            )
        origin = head.get(b"origin")
        if origin is not None:
            if not self._policy.allows_origin(origin, host):
                raise Refused(
                    "FORBIDDEN",
                    f"Pages of the origin {_quoted(origin)} may not call this server. "
                    "If it is yours, add it to MOCHI_CORS_ORIGINS.",
                )
        elif head.get(b"sec-fetch-site", b"none") not in {b"none", b"same-origin"} and not (
            scope["method"] in {"GET", "HEAD"}
            and head.get(b"sec-fetch-mode") == b"navigate"
            and head.get(b"sec-fetch-dest") == b"document"
        ):
            raise Refused("FORBIDDEN", messages.FOREIGN_PAGE)

    async def _principal_of(
        self, scope: Scope, head: dict[bytes, bytes], needs: Needs
    ) -> Principal | None:
        """Return who the request acts for; None for a stranger, where that needs no token.

        Raises:
            Refused: The request is for nobody, or for somebody without the scope of its route.
        """
        try:
            principal = await self._admission.principal_of(scope, head)
        except Refused as refusal:
            if needs.token or refusal.code == "BAD_REQUEST":
                raise
            return None
        if needs.token and needs.scope is not None and needs.scope not in principal.scopes:
            raise Refused.of(ScopeMissing(needs.scope))
        return principal


def _variable(limit: str) -> str:
    return f"MOCHI_{limit.upper()}"


def _too_large(needs: Needs, max_bytes: int) -> Refused:
    if needs.too_large is not None:
        return Refused.of(needs.too_large(max_bytes))
    message = messages.body_too_large(max_bytes, _variable(needs.limit))
    return Refused("PAYLOAD_TOO_LARGE", message, max_bytes=max_bytes)


def _read_head(scope: Scope, watched: frozenset[bytes]) -> tuple[dict[bytes, bytes], bytes, int]:
    """Return the relevant headers, the name of a duplicate one (or empty), and the total size."""
    head: dict[bytes, bytes] = {}
    twice = b""
    size = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    for name, value in scope["headers"]:
        size += len(name) + len(value) + 4
        if name in watched:
            if name in head and name not in _MAY_REPEAT:
                twice = name
            head[name] = value
    return head, twice, size


def _check_server(scope: Scope) -> None:
    """Refuse requests while the server closes its connections.

    Raises:
        Refused: The request was not processed, and may be retried at another process.
    """
    exchange = Exchange.of(scope)
    if exchange is not None and exchange.server_stops:
        raise Refused("SHUTTING_DOWN", messages.SHUTTING_DOWN, retryable=True)


def _has_body(scope: Scope, head: dict[bytes, bytes]) -> bool:
    """Return whether the request has or may have a body, which HTTP/2 need not announce."""
    if b"transfer-encoding" in head or head.get(b"content-length", b"0") not in {b"", b"0"}:
        return True
    return scope.get("http_version", "1.1")[0] != "1" and scope["method"] not in {"GET", "HEAD"}


def _quoted(value: bytes) -> str:
    """Return a client's value, shortened and printable."""
    return repr(value[:100].decode("latin-1"))


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
