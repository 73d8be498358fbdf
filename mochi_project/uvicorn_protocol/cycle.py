"""uvicorn's request and response, with heads of streams that are checked and put together once.

uvicorn searches each header of each response for what may not stand in it. A stream's headers are
always the same.
"""

import asyncio
import json
from collections.abc import Coroutine
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

from mochi_project.errors.statuses import INTERNAL_ERROR_MESSAGE, envelope
from mochi_project.guard.response_headers import Headers

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

# They change how a response is sent, which uvicorn has to know.
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection"})


# With more than fits one packet, a client that is given little room by its system (a receive buffer
# of 4 KiB) was seen to get nothing at all.
SMALL_BYTES = 1024


class LeanCycle(RequestResponseCycle):
    """A request and its response.

    A start whose headers are a tuple, not a list, is taken for one that comes again and again. It
    is written with the first chunk if that is small and follows at once, otherwise by itself.
    """

    _head = b""  # what is not written yet

    # No coroutine of its own: a stream sends every chunk through here.
    def send(self, message: "ASGISendEvent") -> Coroutine[Any, Any, None]:
        """Send a message of ASGI."""
        if not self.response_started:
            if self._take_known_head(message):
                return _sent()
        elif self._head:
            if self._write_with_head(message):
                return _sent()
            self._write_head()
        return super().send(message)

    async def send_500_response(self) -> None:
        """Answer what was raised outside of Django, before a response began; it is logged."""
        body = json.dumps(envelope("INTERNAL_ERROR", INTERNAL_ERROR_MESSAGE)).encode()
        headers = [
            (b"content-type", b"application/json; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        ]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    def _take_known_head(self, message: "ASGISendEvent") -> bool:
        """Start a chunked response whose head is known; False: it is uvicorn's to send."""
        if message["type"] != "http.response.start" or self.disconnected:
            return False
        headers = message.get("headers")
        if not isinstance(headers, tuple) or message["status"] in {204, 304}:
            return False
        if self.access_log or not self.keep_alive or self.scope["method"] == "HEAD":
            return False
        block = _block_of(headers)
        if block is None:
            return False
        own = [b"%b: %b\r\n" % header for header in self.default_headers]
        self.response_started = True
        self.waiting_for_100_continue = False
        self.chunked_encoding = True
        self._head = b"".join((STATUS_LINE[message["status"]], *own, block))
        asyncio.get_running_loop().call_soon(self._write_head)
        return True

    def _write_with_head(self, message: "ASGISendEvent") -> bool:
        """Write the head and the first chunk in one piece; False if they are not to be."""
        body = message.get("body")
        if not isinstance(body, bytes) or not 0 < len(body) <= SMALL_BYTES:
            return False
        if not message.get("more_body") or self.disconnected or self.flow.write_paused:
            return False
        head, self._head = self._head, b""
        self.transport.write(b"%b%x\r\n%b\r\n" % (head, len(body), body))
        return True

    def _write_head(self) -> None:
        head, self._head = self._head, b""
        if head and not self.disconnected:
            self.transport.write(head)


async def _sent() -> None:
    """Nothing is left to do."""


@lru_cache(maxsize=64)
def _block_of(headers: Headers) -> bytes | None:
    """Return a chunked response's headers as they are sent; None where uvicorn must see them."""
    for name, value in headers:
        if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value) or name.lower() in _FRAMING:
            return None
    lines = b"".join(b"%b: %b\r\n" % (name.lower(), value) for name, value in headers)
    return lines + b"transfer-encoding: chunked\r\n\r\n"
