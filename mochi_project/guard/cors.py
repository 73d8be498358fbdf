"""Defines the CORS headers of responses to allowed origins, and answers preflight requests."""

from mochi_project.asgi_types import Send
from mochi_project.guard.response_headers import Headers

_PREFLIGHT_HEADERS: Headers = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (
        b"access-control-allow-headers",
        b"Authorization, Content-Type, Idempotency-Key, Last-Event-ID",
    ),
    (b"access-control-max-age", b"600"),
)
_READABLE_BY_PAGES = (b"access-control-expose-headers", b"Retry-After")


def response_headers(origin: bytes) -> Headers:
    """Return the headers by which a page of this origin may read the response."""
    return (_allowed(origin), _READABLE_BY_PAGES)


async def answer_preflight(origin: bytes, always: Headers, send: Send) -> None:
    """Answer a browser that asks whether a page of this origin may send a request."""
    headers = [*always, _allowed(origin), *_PREFLIGHT_HEADERS]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body"})


def _allowed(origin: bytes) -> tuple[bytes, bytes]:
    return (b"access-control-allow-origin", origin)
