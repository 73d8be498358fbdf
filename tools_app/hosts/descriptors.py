"""Reads the server's ends of a host's sockets and pipe, on the event loop.

Uses ``add_reader`` instead of transports: opening and closing are synchronous, so a cancellation
can never lose a descriptor.
"""

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

from tools_app.hosts.messages import HEADER, MAX_REPORT_BYTES, Ended, Left, Started, reports

T = TypeVar("T")


class ConnectionLost(Exception):
    """The call socket is closed: the tool process ended, or closed it."""


class ProtocolError(Exception):
    """A tool process sent a message that the protocol does not allow."""


class DescriptorReader(ABC):
    """Reads a descriptor when it is readable, and closes it at the end of the stream."""

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
        """Read what is available now, in at most ``most`` reads."""
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
        """Called once after closing; does nothing by default."""


class CallSocket(DescriptorReader):
    """Sends requests to a tool process and receives its answers; one task at a time."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        opened.setblocking(False)
        self._received = bytearray()
        self._outgoing = memoryview(b"")
        self._most = HEADER.size + MAX_REPORT_BYTES
        self._waiter: asyncio.Future[None] | None = None
        super().__init__(opened.fileno())

    @property
    def is_quiet(self) -> bool:
        """Return whether no unrequested bytes have been received."""
        return not self._received

    async def send(self, data: bytes) -> None:
        """Send all bytes.

        Raises:
            ConnectionLost: The tool process no longer reads.
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
            ConnectionLost: The tool process no longer sends.
            ProtocolError: It announced more than ``limit`` bytes.
        """
        while (body := self._frame(limit)) is None:
            await self._change()
        return body

    def expect(self, more: int) -> None:
        """Let so many bytes come beyond what an answer may have; 0 after they have come."""
        self._most = HEADER.size + MAX_REPORT_BYTES + more

    def finish(self) -> None:
        """Read what an ended tool process had sent, and close."""
        self.drain()
        self.close()

    def _frame(self, limit: int) -> bytes | None:
        if len(self._received) < HEADER.size:
            return None
        (length,) = HEADER.unpack_from(self._received)
        if length > limit:
            raise ProtocolError(f"an answer of {length} bytes")
        end = HEADER.size + length
        if len(self._received) < end:
            return None
        with memoryview(self._received) as received:
            body = bytes(received[HEADER.size : end])
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
        except OSError:  # what the tool process sent before it ended can still be read
            sent = len(self._outgoing)
        self._outgoing = self._outgoing[sent:]
        if not self._outgoing:
            self._wake()

    def _take(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > self._most:
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


class Lifeline(DescriptorReader):
    """Receives a reaper's messages, and tells it to end its host.

    Attributes:
        started: The host's process ids, once it runs.
        exit_code: The exit code of the tool process, if it ended by itself.
        left: Ids of processes that the reaper could not end.
    """

    def __init__(
        self,
        opened: socket.socket,
        *,
        on_tool_process_ended: Callable[[], None],
        on_closed: Callable[[], None],
    ) -> None:
        self.started: Started | None = None
        self.exit_code: int | None = None
        self.left: list[int] = []
        self._socket = opened
        opened.setblocking(False)
        self._received = b""
        self._on_tool_process_ended = on_tool_process_ended
        self._tell_closed = on_closed
        self._tool_process_ended = asyncio.Event()
        self._closed = asyncio.Event()
        super().__init__(opened.fileno())

    def shut(self) -> None:
        """Tell the reaper to end the host; its messages are still received."""
        if not self.is_closed:
            with suppress(OSError):  # it is gone
                self._socket.shutdown(socket.SHUT_WR)

    async def tool_process_ended(self, seconds: float) -> None:
        """Wait until the reaper has reported the end of the tool process, or is gone."""
        await _waited(self._tool_process_ended, seconds)

    async def closed(self, seconds: float) -> bool:
        """Wait until nothing is left of the host; return whether that happened in time."""
        return await _waited(self._closed, seconds)

    def _take(self, data: bytes) -> None:
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            try:
                message = reports.decode(line)
            except msgspec.DecodeError:
                self.close()
                return
            if isinstance(message, Started):
                self.started = message
            elif isinstance(message, Ended):
                self.exit_code = message.exit_code
                self._tool_process_ended.set()
                self._on_tool_process_ended()
            elif isinstance(message, Left):
                self.left = message.pids

    def _close(self) -> None:
        self._socket.close()

    def _on_closed(self) -> None:
        self._tool_process_ended.set()
        self._closed.set()
        self._tell_closed()


async def _waited(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
