"""Disconnects clients that do not read their response.

A client may be slow as long as it reads something within the deadline. If it reads nothing, its
connection is reset, so that the kernel discards its send buffer, too.
"""

import asyncio
import logging
import socket
import struct

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mochi_project.uvicorn_protocol.config import ServerConfig

logger = logging.getLogger(__name__)

MAX_UNSENT_BYTES = 128 * 1024

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class WriteDeadline(HttpToolsProtocol):
    """Resets its connection if the peer reads nothing for ``config.write_timeout`` seconds."""

    config: ServerConfig
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Limit the kernel's send buffer, so that a peer that does not read is noticed here."""
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in {socket.AF_INET, socket.AF_INET6}:
            timeout = int(self.config.write_timeout * 1000)
            for option, value in (
                ("TCP_NOTSENT_LOWAT", MAX_UNSENT_BYTES),
                (
                    "TCP_USER_TIMEOUT",
                    timeout,
                ),  # Linux: also limits sending buffered data after closing
            ):
                if hasattr(socket, option):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def pause_writing(self) -> None:
        """Start the deadline: the transport's buffer is above its high-water mark."""
        super().pause_writing()
        if self._timer is None:
            self._watch(self._waiting_bytes())

    def resume_writing(self) -> None:
        """Stop the deadline: the peer has read."""
        super().resume_writing()
        self._stop_watching()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the deadline."""
        self._stop_watching()
        super().connection_lost(exc)

    def _waiting_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def _watch(self, waiting: int) -> None:
        self._timer = self.loop.call_later(self.config.write_timeout, self._judge, waiting)

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _judge(self, waited_before: int) -> None:
        """Reset the connection unless the peer has read something meanwhile."""
        self._timer = None
        waiting = self._waiting_bytes()
        if waiting < waited_before:
            self._watch(waiting)
            return
        logger.warning(
            "dropped a client that did not read for %g seconds", self.config.write_timeout
        )
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.transport.abort()
