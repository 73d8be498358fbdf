"""uvicorn's request and response, with heads of streams that are checked and put together once.

uvicorn searches each header of each response for what may not stand in it. A stream's headers are
always the same.
"""

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

    A start whose headers are a tuple, not a list, is taken for one that comes again and again.
    """

    # No coroutine of its own: a stream sends every chunk through here.
    def send(self, message: "ASGISendEvent") -> Coroutine[Any, Any, None]:
        """Send a message of ASGI."""
        if not self.response_started and self._send_known_head(message):
            return _sent()
        return super().send(message)

    def _send_known_head(self, message: "ASGISendEvent") -> bool:
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
        self.transport.write(b"".join((STATUS_LINE[message["status"]], *own, block)))
        return True


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
