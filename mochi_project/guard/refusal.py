"""Refuses requests with the error envelope before they reach Django."""

import asyncio
import logging
from typing import Any, Self

from mochi_project.asgi_types import Receive, Scope, Send
from mochi_project.errors import messages
from mochi_project.errors.formats import ErrorAnswer, error_answer
from mochi_project.guard.response_headers import Headers
from mochi_project.guard.root_path import path_below_root
from sessions_app.errors import MochiError

# How long the rest of a refused body is read and discarded, so that a client still sending reads
# the refusal instead of getting a connection reset.
LINGER_SECONDS = 1.0

MAX_HEAD_BYTES = 64 * 1024

logger = logging.getLogger(__name__)


class Refused(Exception):
    """Raised for an inadmissible request; has the content of the error envelope."""

    def __init__(self, code: str, message: str, *, retryable: bool = False, **details: Any) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.code = code
        self.message = message
        self.details = details

    @classmethod
    def of(cls, error: MochiError) -> Self:
        """Return the refusal that a domain error is."""
        return cls(error.code, error.message, retryable=error.retryable, **error.details)


async def send_refusal(
    refusal: Refused,
    scope: Scope,
    receive: Receive,
    send: Send,
    extra: Headers,
    *,
    has_body: bool,
) -> None:
    """Answer a refused request, and discard the rest of its body for a moment.

    Args:
        refusal: The error.
        scope: The request.
        receive: Receives the rest of the body.
        send: Sends the response.
        extra: Additional headers of the response.
        has_body: Whether the request has a body that may not have been read completely.
    """
    answer = error_answer(
        refusal.code,
        refusal.message,
        retryable=refusal.retryable,
        details=refusal.details,
        path=path_below_root(scope),
        headers={name.decode("latin-1") for name, _ in scope["headers"]},
    )
    body = answer.data
    headers = [*_headers_of(answer, body), *extra]
    if refusal.code == "UNAUTHENTICATED":
        headers.append((b"www-authenticate", b'Bearer realm="mochi-server"'))
    closes = has_body or refusal.code == "SHUTTING_DOWN"
    if closes and scope.get("http_version", "1.1")[0] == "1":
        headers.append((b"connection", b"close"))
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": headers,
        }
    )
    await send({"type": "http.response.body", "body": body, "more_body": has_body})
    if has_body:
        await _discard_rest(receive)
        await send({"type": "http.response.body"})


async def send_crash(path: str, send: Send) -> None:
    """Answer 500 to a request whose application raised before it started a response."""
    answer = error_answer("INTERNAL_ERROR", messages.INTERNAL_ERROR, path=path)
    body = answer.data
    headers = [*_headers_of(answer, body), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _headers_of(answer: ErrorAnswer, body: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", b"application/json; charset=utf-8"),
        *((name.encode(), value.encode()) for name, value in answer.headers.items()),
        (b"content-length", b"%d" % len(body)),
    ]


async def _discard_rest(receive: Receive) -> None:
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while (await receive()).get("more_body", False):
                pass
    except TimeoutError:
        logger.debug("the client was still sending the body of a refused request")
