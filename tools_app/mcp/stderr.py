"""Logs a server's stderr at DEBUG, and keeps the last lines for error messages."""

import logging
import time
from collections import deque

from tools_app.mcp.redaction import redacted

_LINES_KEPT = 3
_LINES_PER_SPAN = 50
_SPAN_SECONDS = 10.0
_MAX_LINE_BYTES = 4096

logger = logging.getLogger(__name__)


class ErrorOutput:
    """Splits stderr into lines. Logs at DEBUG only: a server may print the calls it gets.

    Args:
        server: The server's name.
        secrets: Values that are redacted.
    """

    def __init__(self, server: str, secrets: frozenset[str]) -> None:
        self._server = server
        self._secrets = secrets
        self._pending = b""
        self._last: deque[str] = deque(maxlen=_LINES_KEPT)
        self._span_began = time.monotonic()
        self._logged = 0

    @property
    def last_words(self) -> str:
        """Return the last lines, joined; empty if there were none."""
        return " / ".join(self._last)

    def feed(self, data: bytes) -> None:
        """Add output; an empty piece marks the end."""
        *lines, rest = (self._pending + data).split(b"\n")
        if not data or len(rest) > _MAX_LINE_BYTES:
            lines, rest = [*lines, rest], b""
        self._pending = rest
        for line in lines[-_LINES_PER_SPAN:]:
            self._take(redacted(line[:_MAX_LINE_BYTES].decode(errors="replace"), self._secrets))

    def _take(self, line: str) -> None:
        if not line:
            return
        self._last.append(line)
        now = time.monotonic()
        if now - self._span_began > _SPAN_SECONDS:
            self._span_began, self._logged = now, 0
        self._logged += 1
        if self._logged <= _LINES_PER_SPAN:
            logger.debug("MCP server %s: %s", self._server, line)
        elif self._logged == _LINES_PER_SPAN + 1:
            logger.debug("MCP server %s prints more than is logged.", self._server)
