"""Logs what users' functions print, and always reads the pipe, so that no function blocks on it."""

import asyncio
import fcntl
import logging
import os
from contextlib import suppress

from tools_app.hosts.descriptors import DescriptorReader
from tools_app.limits import KIBIBYTE, HostLimits

# The name that users know, whichever module of this package logs.
logger = logging.getLogger("tools_app.hosts")

MAX_CHARS = 16_000
"""The characters of a traceback that are logged."""
MAX_LINES = 200
"""The lines of a traceback that are logged."""

_LOADING = "loading"
_MAX_LINE_BYTES = 8 * KIBIBYTE
# The pipe holds so much that a function is not held up meanwhile below 100 MB a second.
_REST_SECONDS = 0.005
_PIPE_BYTES = 512 * KIBIBYTE


class OutputLog(DescriptorReader):
    """Logs the lines that a host prints, up to a limit for each call; drops the rest."""

    def __init__(self, descriptor: int, folder: str, limits: HostLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._partial = b""
        self.begin(_LOADING)
        self._pause: asyncio.TimerHandle | None = None
        os.set_blocking(descriptor, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # the user's pipes hold a lot already
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        super().__init__(descriptor)

    def begin(self, function: str) -> None:
        """Attribute what is printed from now on to ``function``, with a budget of its own."""
        self._function = function
        self._bytes_left = self._limits.log_bytes
        self._lines_left = self._limits.log_lines
        self._is_dropping = False

    def finish(self) -> None:
        """Log what is available now, an unfinished line too."""
        self.drain()
        if self._partial:
            self._log(self._partial)
            self._partial = b""

    def _read(self) -> bytes:
        # Small pieces while they are logged: logging takes longer than reading.
        return os.read(self._descriptor, 256 * KIBIBYTE if self._is_dropping else _MAX_LINE_BYTES)

    def _take(self, data: bytes) -> None:
        if self._is_dropping:
            self._rest()
            return
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) >= _MAX_LINE_BYTES:
            lines.append(self._partial)
            self._partial = b""
        for line in lines:
            if not self._log(line):
                return

    def _rest(self) -> None:
        """Pause reading, or the loop would wake up for every line."""
        if self._pause is None:
            self._loop.remove_reader(self._descriptor)
            self._pause = self._loop.call_later(_REST_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._descriptor, self._readable)

    def _close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        super()._close()

    def _log(self, line: bytes) -> bool:
        """Log the line, or note that the rest is dropped; return whether to go on."""
        kept = line[: self._bytes_left]
        if kept.strip() and self._lines_left:
            logger.info("%s, %s: %s", self._folder, self._function, printable(kept))
            self._lines_left -= 1
            self._bytes_left -= len(kept)
        if len(kept) < len(line) or not self._lines_left:
            self._is_dropping = True
            self._partial = b""
            logger.info("%s, %s: (prints more, which is dropped)", self._folder, self._function)
        return not self._is_dropping


def printable(line: bytes | str) -> str:
    """Replace characters that would steer a terminal or look like another line."""
    text = line if isinstance(line, str) else line.decode("utf-8", errors="replace")
    text = text.rstrip("\r")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def printable_end(text: str) -> str:
    """Return the end of a text, indented so that no line passes for a log record of its own.

    At most ``MAX_CHARS`` characters and ``MAX_LINES`` lines are kept.
    """
    kept = text.strip()[-MAX_CHARS:].split("\n")[-MAX_LINES:]
    return "\n".join(f"    {printable(line)}" for line in kept)
