"""One MCP server: started when somebody needs it, watched, and started again when it fails.

    stopped ──somebody asks──> starting ──> ready ──it ends──> backing_off ──> failed
                                  │                                 ▲            │
                                  └────────── it fails ─────────────┘            │
                                  ▲──────────────── somebody asks ───────────────┘

``backing_off``: it failed, and is not tried again for a while. ``failed``: that while is over, and
the next one who asks has it tried again. Nothing is started that nobody asks for.
"""

import asyncio
import contextvars
import importlib
import logging
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import ModuleType
from typing import Any, Literal

from tools_app.mcp.config import HttpSpec, StdioSpec
from tools_app.mcp.limits import MAX_LISTING_BYTES, MAX_TOOLS, McpLimits
from tools_app.mcp.naming import NamedTools, name_tools
from tools_app.mcp.redaction import redacted
from tools_app.mcp.remote import Connection, OnProgress, RemoteError, RemoteResult
from tools_app.mcp.stderr import ErrorOutput
from tools_app.toolset import InvalidTool, ToolProgress

State = Literal["stopped", "starting", "ready", "backing_off", "failed"]

_CUT = (
    f"Only its first {MAX_TOOLS} tools, and no more than {MAX_LISTING_BYTES >> 20} MiB of them, "
    "are listed."
)

logger = logging.getLogger(__name__)


class ServerUnavailable(Exception):
    """The server does not work now; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ServerOwner:
    """The owner of one server's connection. Belongs to one event loop.

    The connection lives in one task, because the SDK's contexts must be left in the task that
    entered them; calls are made by whoever calls.

    Args:
        name: What ``mcp.json`` calls it.
        spec: How it is reached.
        limits: How long things may take.
    """

    def __init__(self, name: str, spec: StdioSpec | HttpSpec, limits: McpLimits) -> None:
        self.name = name
        self.spec = spec
        self.state: State = "stopped"
        self.error: str | None = None
        self.named = NamedTools()
        self._limits = limits
        self._connection: Connection | None = None
        self._owner: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._closing = False
        self._restarting = False
        self._tools_changed = False
        self._lost: str | None = None
        self._failures = 0
        self._began = 0.0
        self._resumes_at = 0.0
        self._clock: asyncio.Timeout | None = None

    def want(self) -> None:
        """Have the server started, unless it runs, or failed a moment ago."""
        if self._closing:
            return
        if self.state in ("stopped", "failed"):
            self._demand()
        elif self.state == "backing_off":
            self._wanted.set()  # when the pause is over

    async def settled(self, *, within: float) -> bool:
        """Have the server started, and wait until that succeeded or failed; return whether it did.

        A server that started to start long ago, or that pauses for long, is not waited for.
        """
        self.want()
        latest = _now() + within
        while (seconds := min(latest - _now(), self._worth_waiting())) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._moved.wait()
        return self.state == "ready"

    async def call_tool(
        self,
        tool_name: str,
        arguments: Mapping[str, Any],
        on_progress: OnProgress,
        *,
        digest: str | None = None,
    ) -> RemoteResult:
        """Call a tool by its name here, unless it is not any more what ``digest`` tells.

        Raises:
            ServerUnavailable: The server does not work now, or has no such tool any more.
            RemoteError: The call failed.
            TimeoutError: It took too long; the server was told that nobody waits any more.
        """
        if not await self.settled(within=self._limits.need) or self._connection is None:
            raise ServerUnavailable(self._why_not())
        remote_name = self.named.remote_names.get(tool_name)
        if remote_name is None:
            raise ServerUnavailable("It has no such tool any more.")
        if digest not in (None, self.named.tools[tool_name].digest):
            raise RemoteError("It changed this tool after it was offered. The tool did not run.")
        connection, finished = self._connection, False
        loop = asyncio.get_running_loop()
        latest = loop.time() + self._limits.call * self._limits.calls_at_most
        try:
            async with asyncio.timeout(self._limits.call) as clock:

                def progressed(progress: ToolProgress) -> None:
                    if not finished and not clock.expired():
                        clock.reschedule(min(latest, loop.time() + self._limits.call))
                        on_progress(progress)

                return await connection.call_tool(remote_name, arguments, progressed)
        except RemoteError as error:
            if error.lost and connection is self._connection:
                self._end(error.message)
            raise RemoteError(self._redacted(error.message), lost=error.lost) from error
        finally:
            finished = True

    async def restart(self) -> None:
        """End the server if it runs, and start it, without any pause; wait for how that goes."""
        if self._closing:
            return
        self._failures = 0
        self._restarting = True
        self._interrupt()
        self._demand()
        await self.settled(within=self._limits.need)

    async def aclose(self) -> None:
        """End the server for good, within a bounded time."""
        self._closing = True
        self._interrupt()
        self._wanted.set()
        owner = self._owner
        if owner is None:
            return
        _, running = await asyncio.wait([owner], timeout=self._limits.close)
        if running:
            owner.cancel()
            await asyncio.wait([owner], timeout=self._limits.close)
        self._move("stopped")

    def _demand(self) -> None:
        self._began = _now()
        self._move("starting")
        self._wanted.set()
        if self._owner is None:
            # In a context of its own: it belongs to no turn, whoever asked first.
            self._owner = asyncio.create_task(
                self._own(), name=f"mcp-{self.name}", context=contextvars.Context()
            )

    def _worth_waiting(self) -> float:
        """Return for how many seconds it may be worth to wait for the server to be ready."""
        if self.state == "starting":
            return self._began + self._limits.need - _now()
        pause = self._resumes_at - _now()
        if self.state == "backing_off" and pause <= self._limits.patience:
            return pause + self._limits.need
        return 0.0

    def _why_not(self) -> str:
        if self.state == "starting":
            return "It is still starting."
        if self.state == "backing_off":
            seconds = max(1, round(self._resumes_at - _now()))
            return f"{self.error} It is tried again in {seconds} s at the earliest."
        return self.error or "It is not running."

    async def _own(self) -> None:
        """Run the server whenever it is wanted, until this is closed."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self._closing:
                break
            self._restarting, self._lost, self._tools_changed = False, None, False
            self._wake.clear()
            self._began = _now()
            self._move("starting")
            stderr = ErrorOutput(self.name, self.spec.secrets)
            try:
                await self._run(stderr)
            except Exception as error:  # noqa: BLE001 - whatever a server does costs only itself
                if not self._shall_end():
                    self._failed(error, stderr)
                    await self._pause()
        self._move("stopped")

    async def _run(self, stderr: ErrorOutput) -> None:
        """Start the server and watch it; return when it shall be ended."""
        async with AsyncExitStack() as stack:
            async with self._attempt(self._limits.start):
                sdk = await asyncio.to_thread(_sdk)
                connection = await stack.enter_async_context(
                    sdk.connect(self.spec, stderr=stderr, on_end=self._end, on_change=self._changed)
                )
                await self._list(connection)
            self._connection = connection
            self.error = None
            self._move("ready")
            ready_at = _now()
            logger.info("MCP server %s has %d tools.", self.name, len(self.named.tools))
            try:
                await self._watch(connection)
            finally:
                self._connection = None
                if _now() - ready_at >= self._limits.proven:
                    self._failures = 0

    async def _watch(self, connection: Connection) -> None:
        listed_at = _now()
        while True:
            rest = listed_at + self._limits.between_listings - _now()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, rest) if self._tools_changed else None):
                    await self._wake.wait()
            self._wake.clear()
            if self._shall_end():
                return
            if self._lost is not None:
                raise RemoteError(self._lost)
            if self._tools_changed and _now() >= listed_at + self._limits.between_listings:
                self._tools_changed = False
                async with self._attempt(self._limits.need):
                    await self._list(connection)
                listed_at = _now()

    @asynccontextmanager
    async def _attempt(self, seconds: float) -> AsyncIterator[None]:
        """Bound what is done, and let ``_interrupt`` break it off."""
        async with asyncio.timeout(seconds) as clock:
            self._clock = clock
            try:
                yield
            finally:
                self._clock = None

    def _interrupt(self) -> None:
        self._wake.set()
        if self._clock is not None and not self._clock.expired():
            self._clock.reschedule(_now())

    async def _list(self, connection: Connection) -> None:
        listing = await connection.list_tools()
        named = name_tools(self.name, listing.tools, trusted=self.spec.trusted)
        if listing.cut:
            more = InvalidTool(name=self.name, file=f"mcp.json: {self.name}", reason=_CUT)
            named = NamedTools(
                tools=named.tools, remote_names=named.remote_names, invalid=[*named.invalid, more]
            )
        self.named = named

    async def _pause(self) -> None:
        pause = min(
            self._limits.longest_pause,
            self._limits.first_pause * 2 ** min(self._failures - 1, 16),
        )
        pause *= random.uniform(0.5, 1.0)  # noqa: S311 - so that workers do not try all at once
        self._resumes_at = _now() + pause
        self._move("backing_off")
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                while not self._shall_end():
                    self._wake.clear()
                    await self._wake.wait()
        if not self._wanted.is_set() and not self._shall_end():
            self._move("failed")

    def _failed(self, error: Exception, stderr: ErrorOutput) -> None:
        self._failures += 1
        self.error = self._redacted(self._lost or _cause(error))
        logger.warning("MCP server %s does not work: %s", self.name, self.error)
        if stderr.last_words:
            self.error = redacted(f"{self.error} It said: {stderr.last_words}", ())

    def _shall_end(self) -> bool:
        """Whether what runs now is wanted no more, for good or to be started again."""
        return self._closing or self._restarting

    def _end(self, reason: str) -> None:
        """Take note that the connection is of no use any more."""
        if self._lost is None:
            self._lost = reason
            self._wake.set()

    def _changed(self) -> None:
        self._tools_changed = True
        self._wake.set()

    def _redacted(self, text: str) -> str:
        return redacted(text, self.spec.secrets)

    def _move(self, state: State) -> None:
        self.state = state
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


def _cause(error: BaseException) -> str:
    """Return what went wrong, as a sentence: SDK and transports wrap it in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, RemoteError):
        return error.message
    if isinstance(error, TimeoutError):
        return "It did not answer in time."
    return f"{type(error).__name__}: {error}" if str(error) else f"{type(error).__name__}."


def _sdk() -> ModuleType:
    return importlib.import_module("tools_app.mcp.connection")


def _now() -> float:
    return asyncio.get_running_loop().time()
