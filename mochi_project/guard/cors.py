"""Defines the CORS headers of responses to allowed origins, and answers preflight requests."""

import re

from mochi_project.asgi_types import Send
from mochi_project.guard.response_headers import Headers

MOST_ASKED_BYTES = 2048
"""The maximum length of a list of requested headers; the official SDK sends some 300 bytes."""

_METHODS = (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE")
_MAX_AGE = (b"access-control-max-age", b"600")
_USUAL = b"Authorization, Content-Type, Idempotency-Key, Last-Event-ID"
_READABLE_BY_PAGES = (
    b"access-control-expose-headers",
    b"Retry-After, request-id, x-request-id, x-should-retry, x-mochi-session-id, x-mochi-warning",
)

_TOKEN = rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_is_list = re.compile(_TOKEN + rb"(?:[ \t]*,[ \t]*" + _TOKEN + rb")*").fullmatch


def response_headers(origin: bytes) -> Headers:
    """Return the headers that allow pages of this origin to read the response."""
    return (_allowed(origin), _READABLE_BY_PAGES)


async def answer_preflight(origin: bytes, requested: bytes, always: Headers, send: Send) -> None:
    """Answer a preflight request of an allowed origin.

    Args:
        origin: The allowed origin.
        requested: The headers that the page wants to send. All are allowed: pages of an allowed
            origin may do what any program may, and SDKs send custom headers.
        always: The headers of every response.
        send: Sends the response.
    """
    headers = [*always, _allowed(origin), _METHODS, _allowed_headers(requested), _MAX_AGE]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body"})


def _allowed(origin: bytes) -> tuple[bytes, bytes]:
    return (b"access-control-allow-origin", origin)


def _allowed_headers(requested: bytes) -> tuple[bytes, bytes]:
    """Return the header that allows the requested headers; an invalid list is not echoed."""
    is_sane = len(requested) <= MOST_ASKED_BYTES and _is_list(requested)
    return (b"access-control-allow-headers", requested if is_sane else _USUAL)
