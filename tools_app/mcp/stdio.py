"""Implements the stdio transport: JSON-RPC messages to and from a program, one a line.

Unlike the SDK's transport it bounds the length of a line, the rate of messages and the time that a
program may leave its stdin unread, and leaves no process behind.

Importing this module imports the SDK.
"""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from tools_app.command_reaper import reaper_command
from tools_app.mcp.exchange import Incoming, Streams
from tools_app.mcp.limits import MAX_MESSAGE_BYTES
from tools_app.mcp.messages import MessageLines, in_thread_if_large
from tools_app.mcp.rate_limit import RateLimiter
from tools_app.mcp.stderr import ErrorOutput

_UNREAD_SECONDS = 30.0
_PIECE = 4096
_OWN_END_SECONDS = 1.5
_REAPER_SECONDS = 4.0
_FLUSH_SECONDS = 0.5
_POLL_SECONDS = 0.01

logger = logging.getLogger(__name__)


@asynccontextmanager
async def stdio_transport(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    stderr: ErrorOutput,
    on_end: Callable[[str], None],
) -> AsyncIterator[Streams]:
    """Run the command under a reaper; on exit it has ended, with all processes it started.

    Args:
        command: The program and its arguments.
        env: Its whole environment.
        cwd: The directory it starts in.
        stderr: Receives its stderr.
        on_end: Called once, with the reason, when no more messages will come.

    Raises:
        OSError: The program can't be started at all.
    """
    process = await asyncio.create_subprocess_exec(
        *reaper_command(command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=MAX_MESSAGE_BYTES,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )
    program = _Program(process, stderr, on_end)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(program.read_messages)
        tasks.start_soon(program.read_stderr)
        tasks.start_soon(program.write_messages)
        try:
            yield program.streams
        finally:
            # The program is ended also when this is cancelled; every wait in there is bounded.
            with anyio.CancelScope(shield=True):
                await program.stop()
            tasks.cancel_scope.cancel()


class _Program:
    def __init__(
        self,
        process: asyncio.subprocess.Process,
        stderr: ErrorOutput,
        on_end: Callable[[str], None],
    ) -> None:
        self._process = process
        self._stdin = cast("asyncio.StreamWriter", process.stdin)
        self._stdout = cast("asyncio.StreamReader", process.stdout)
        self._stderr = cast("asyncio.StreamReader", process.stderr)
        self._error_output = stderr
        self._lines = MessageLines()
        self._on_end = on_end
        self._ended = False
        self._incoming: MemoryObjectSendStream[Incoming]
        self._outgoing: MemoryObjectReceiveStream[SessionMessage]
        self._incoming, incoming = anyio.create_memory_object_stream[Incoming](0)
        outgoing, self._outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self.streams: Streams = (incoming, outgoing)

    async def read_messages(self) -> None:
        """Pass on the program's messages, until it closes its stdout or breaks a limit."""
        limiter = RateLimiter()
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with self._incoming:
                try:
                    while True:
                        await self._take(await self._stdout.readuntil(b"\n"))
                        await limiter.wait()
                except asyncio.IncompleteReadError as error:
                    await self._take(error.partial)
                    self._report_end(await self._why_ended())
                except asyncio.LimitOverrunError:
                    self._report_end(f"It sent a message of more than {MAX_MESSAGE_BYTES:,} bytes.")
                except OSError as error:
                    self._report_end(f"Its output can't be read: {error}.")
        while await self._stdout.read(_PIECE):
            await limiter.wait()

    async def read_stderr(self) -> None:
        """Pass on the program's stderr."""
        limiter = RateLimiter()
        with suppress(OSError):
            while data := await self._stderr.read(_PIECE):
                self._error_output.feed(data)
                await limiter.wait()
        self._error_output.feed(b"")

    async def write_messages(self) -> None:
        """Send the session's messages to the program; give up one that does not read."""
        try:
            async with self._outgoing:
                async for message in self._outgoing:
                    line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._stdin.write(line.encode() + b"\n")
                    async with asyncio.timeout(_UNREAD_SECONDS):
                        await self._stdin.drain()
        except OSError:  # a TimeoutError is one
            self._report_end("It does not read its input.")
            await self._incoming.aclose()

    async def stop(self) -> None:
        """End the program: close its stdin, and if that does not help, kill it."""
        self._ended = True
        for stream in self.streams:
            await stream.aclose()
        self._stdin.close()
        if not await self._ends_within(_OWN_END_SECONDS):
            self._send(signal.SIGTERM)
            if not await self._ends_within(_REAPER_SECONDS):
                logger.warning("Process %d can't be ended; it is left alone.", self._process.pid)
                self._send(signal.SIGKILL)
        # Descendants may still hold the pipes: on macOS, or with another owner.
        with anyio.move_on_after(_FLUSH_SECONDS):
            await self._process.wait()
        # private: asyncio.subprocess.Process._transport, the only way to close pipes that
        # descendants still hold. Price: this line; endings are tested with every Python.
        self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001
        with suppress(OSError):
            await self._stdin.wait_closed()

    async def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        lines = self._lines
        messages, noise = await in_thread_if_large(lines.feed, line, lines.size)
        if noise:  # many programs print a banner to stdout
            self._error_output.feed(b"(no message) " + noise[:_PIECE].rstrip() + b"\n")
        for message in messages:
            await self._incoming.send(SessionMessage(message))

    async def _why_ended(self) -> str:
        if not await self._ends_within(_FLUSH_SECONDS):
            return "It closed its output."
        code = self._process.returncode or 0
        return f"It ended with exit code {code}."

    async def _ends_within(self, seconds: float) -> bool:
        # Not Process.wait(): that waits for the pipes too.
        deadline = asyncio.get_running_loop().time() + seconds
        while self._process.returncode is None:
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _report_end(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            self._on_end(reason)
