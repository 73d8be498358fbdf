"""uvicorn's request and response, with heads of streams that are checked and put together once.

uvicorn searches each header of each response for what may not stand in it. A stream's headers are
always the same.
"""

import asyncio
from collections.abc import Coroutine
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

from mochi_project.added_headers import Headers

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

# They change how a response is sent, which uvicorn has to know.
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection"})


class LeanCycle(RequestResponseCycle):
    """A request and its response.

    A start whose headers are a tuple, not a list, is taken for one that comes again and again. It
    is written with the first chunk, or alone when that does not follow at once.
    """

    _head = b""  # what is not written yet

    # No coroutine of its own: a stream sends every chunk through here.
    def send(self, message: "ASGISendEvent") -> Coroutine[Any, Any, None]:
        """Send a message of ASGI."""
        if not self.response_started:
            if self._take_known_head(message):
                return _sent()
        elif self._head and not self.disconnected:
            chunk = message.get("body")
            if isinstance(chunk, bytes) and chunk and message.get("more_body"):
                self.write_chunk(chunk)
                return _sent()
            self._write_head()
        return super().send(message)

    def write_chunk(self, body: bytes) -> None:
        """Write a piece of a chunked body that was started and has not ended."""
        head, self._head = self._head, b""
        self.transport.write(b"%b%x\r\n%b\r\n" % (head, len(body), body))

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
        self._head = b"".join((STATUS_LINE[message["status"]], *own, block))
        self.response_started = True
        self.waiting_for_100_continue = False
        self.chunked_encoding = True
        asyncio.get_running_loop().call_soon(self._write_head)
        return True

    def _write_head(self) -> None:
        head, self._head = self._head, b""
        if head and not self.transport.is_closing():
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
