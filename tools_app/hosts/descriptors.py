"""The server's ends of what leads to a host, on the event loop.

They use ``add_reader`` instead of transports: opening and closing are plain calls, so there is no
moment at which a cancellation could lose a descriptor.
"""

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

from tools_app.hosts.messages import (
    HEADER,
    MAX_REPORT_BYTES,
    Ended,
    Left,
    Started,
    news,
)

T = TypeVar("T")


class ConnectionLost(Exception):
    """The call socket is closed: the worker has ended, or closed it."""


class Garbage(Exception):
    """A worker sent what no worker sends."""


class Inlet(ABC):
    """A descriptor that is read whenever there is something; closed at its end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self.is_closed = False
        self._loop.add_reader(descriptor, self._readable)

    def close(self) -> None:
        """Stop reading, and close the descriptor."""
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self._descriptor)
        self._close()
        self._on_closed()

    def drain(self, most: int = 64) -> None:
        """Read what is there now, in at most that many pieces."""
        for _ in range(most):
            if self.is_closed or not self._readable():
                return

    def _readable(self) -> bool:
        try:
            data = self._read()
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:  # the other end closed while something from us was on the way
            data = b""
        if data:
            self._take(data)
        else:
            self.close()
        return True

    def _read(self) -> bytes:
        return os.read(self._descriptor, 256 * 1024)

    def _close(self) -> None:
        os.close(self._descriptor)

    @abstractmethod
    def _take(self, data: bytes) -> None: ...

    def _on_closed(self) -> None:  # noqa: B027 - nothing to do, as a rule
        """Be told that it is closed."""


class CallSocket(Inlet):
    """Sends requests to a worker and receives its answers; one task at a time."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        opened.setblocking(False)
        self._received = bytearray()
        self._outgoing = memoryview(b"")
        self._waiter: asyncio.Future[None] | None = None
        super().__init__(opened.fileno())

    @property
    def is_quiet(self) -> bool:
        """Whether the worker has said nothing that nobody asked for."""
        return not self._received

    async def send(self, data: bytes) -> None:
        """Send all of it.

        Raises:
            ConnectionLost: The worker does not listen any more.
        """
        if self.is_closed:
            raise ConnectionLost
        self._outgoing = memoryview(data)
        self._write()
        if self._outgoing and not self.is_closed:
            self._loop.add_writer(self._descriptor, self._write)
            try:
                while self._outgoing:
                    await self._change()
            finally:
                if not self.is_closed:
                    self._loop.remove_writer(self._descriptor)

    async def receive(self, limit: int) -> bytes:
        """Return the body of the next frame.

        Raises:
            ConnectionLost: The worker sends nothing any more.
            Garbage: It announced more than ``limit`` bytes.
        """
        while (body := self._frame(limit)) is None:
            await self._change()
        return body

    def finish(self) -> None:
        """Take what a worker that has ended had sent, and close."""
        self.drain()
        self.close()

    def _frame(self, limit: int) -> bytes | None:
        if len(self._received) < HEADER.size:
            return None
        (length,) = HEADER.unpack_from(self._received)
        if length > limit:
            raise Garbage(f"an answer of {length} bytes")
        end = HEADER.size + length
        if len(self._received) < end:
            return None
        body = bytes(self._received[HEADER.size : end])
        del self._received[:end]
        return body

    async def _change(self) -> None:
        if self.is_closed:
            raise ConnectionLost
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _write(self) -> None:
        try:
            sent = self._socket.send(self._outgoing)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # what the worker said before it ended can still be read
            sent = len(self._outgoing)
        self._outgoing = self._outgoing[sent:]
        if not self._outgoing:
            self._wake()

    def _take(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > HEADER.size + MAX_REPORT_BYTES:
            self.close()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _close(self) -> None:
        self._loop.remove_writer(self._descriptor)
        self._socket.close()

    def _on_closed(self) -> None:
        self._wake()


class Lifeline(Inlet):
    """Hears from a warden, and tells it to end its host.

    Attributes:
        started: The host's process ids, once it runs.
        exit_code: How the worker ended by itself, if it did.
        left: Processes that the warden could not end.
    """

    def __init__(
        self,
        opened: socket.socket,
        *,
        on_worker_ended: Callable[[], None],
        on_closed: Callable[[], None],
    ) -> None:
        self.started: Started | None = None
        self.exit_code: int | None = None
        self.left: list[int] = []
        self._socket = opened
        opened.setblocking(False)
        self._received = b""
        self._on_worker_ended = on_worker_ended
        self._tell_closed = on_closed
        self._worker_ended = asyncio.Event()
        self._closed = asyncio.Event()
        super().__init__(opened.fileno())

    def shut(self) -> None:
        """Tell the warden to end the host; what it says is still heard."""
        if not self.is_closed:
            with suppress(OSError):  # it is gone
                self._socket.shutdown(socket.SHUT_WR)

    async def worker_ended(self, seconds: float) -> None:
        """Wait until the warden has told how the worker ended, or is gone; at most so long."""
        await _waited(self._worker_ended, seconds)

    async def closed(self, seconds: float) -> bool:
        """Wait until nothing is left of the host; whether that came true in time."""
        return await _waited(self._closed, seconds)

    def _take(self, data: bytes) -> None:
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            try:
                said = news.decode(line)
            except msgspec.DecodeError:
                self.close()
                return
            if isinstance(said, Started):
                self.started = said
            elif isinstance(said, Ended):
                self.exit_code = said.exit_code
                self._worker_ended.set()
                self._on_worker_ended()
            elif isinstance(said, Left):
                self.left = said.pids

    def _close(self) -> None:
        self._socket.close()

    def _on_closed(self) -> None:
        self._worker_ended.set()
        self._closed.set()
        self._tell_closed()


async def _waited(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
