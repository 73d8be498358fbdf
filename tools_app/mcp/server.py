"""Supervises one MCP server: starts it on demand, watches it, and restarts it after a failure.

    stopped ──needed──> starting ──> ready ──it ends──> backing_off ──> failed
                           │                                 ▲            │
                           └────────── it fails ─────────────┘            │
                           ▲──────────────────── needed ──────────────────┘

``backing_off``: it failed, and is not restarted for some time. ``failed``: that time is over, and
the next caller restarts it. A server is started only when it is needed. Instead of ``backing_off``
it is ``needs_login`` if it wants a login, until there is one.
"""

import asyncio
import contextvars
import importlib
import logging
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tools_app.elicitation import MAX_MESSAGE_CHARS, InputAnswer, InputRequest
from tools_app.mcp.call_time import call_time
from tools_app.mcp.config import HttpSpec, StdioSpec
from tools_app.mcp.limits import McpLimits
from tools_app.mcp.login import ServerLogin
from tools_app.mcp.naming import NO_TOOLS, name_tools
from tools_app.mcp.redaction import MAX_ERROR_CHARS, redacted
from tools_app.mcp.remote import CallHeaders, RemoteError, cause_of
from tools_app.mcp.stderr import ErrorOutput
from tools_app.toolset import ToolInvocation, ToolProgress, ToolResult

if TYPE_CHECKING:
    from tools_app.mcp.connection import SdkConnection

State = Literal["stopped", "starting", "ready", "backing_off", "failed", "needs_login"]

logger = logging.getLogger(__name__)


class ManagedServer:
    """One server and its connection. Belongs to one event loop.

    The connection lives in a task of its own, because the SDK's contexts must be left in the task
    that entered them; calls run in the tasks of their callers.

    Args:
        name: Its name in ``mcp.json``.
        spec: Its validated entry there.
        limits: Its timeouts.
        call_headers: Returns further headers of a request over HTTP; None for none.
        login: Its login; None for a server without logins.
    """

    def __init__(
        self,
        name: str,
        spec: StdioSpec | HttpSpec,
        limits: McpLimits,
        call_headers: CallHeaders | None = None,
        login: ServerLogin | None = None,
    ) -> None:
        self.name = name
        self.login = login
        self._call_headers = call_headers
        self.spec = spec
        self.state: State = "stopped"
        self.error: str | None = None
        self.named = NO_TOOLS
        self._limits = limits
        self._connection: SdkConnection | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._wake = asyncio.Event()
        self._state_changed = asyncio.Event()
        self._closing = False
        self._restarting = False
        self._tools_changed = False
        self._lost: str | None = None
        self._failures = 0
        self._began = 0.0
        self._resumes_at = 0.0
        self._clock: asyncio.Timeout | None = None

    async def request_start(self) -> None:
        """Request a start, unless the server runs, is backing off, or still needs a login."""
        if self._closing:
            return
        if self.state in ("stopped", "failed"):
            self._start()
        elif self.state == "backing_off":
            self._wanted.set()  # when the pause is over
        elif self.state == "needs_login" and await self._is_logged_in():
            self._failures = 0
            self._start()

    async def wait_ready(self, *, within: float) -> bool:
        """Request a start and wait for it; return whether the server is ready.

        Does not wait for a start that began long ago, nor for a long pause.
        """
        await self.request_start()
        latest = _now() + within
        while (seconds := min(latest - _now(), self._seconds_worth_waiting())) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._state_changed.wait()
        return self.state == "ready"

    async def call_tool(self, invocation: ToolInvocation) -> ToolResult:
        """Call a tool, unless it has changed since it was offered.

        The time stands still while a person is asked.

        Raises:
            RemoteError: The call failed, or the server does not work now or no longer has the tool.
            TimeoutError: It took too long; the server was sent a cancellation.
        """
        async with self._used() as connection, call_time(self._limits) as time:
            remote_name = self.named.remote_names.get(invocation.name)
            if remote_name is None:
                raise RemoteError("It has no such tool any more.", unavailable=True)
            if invocation.digest not in (None, self.named.tools[invocation.name].digest):
                raise RemoteError(
                    "It changed this tool after it was offered. The tool did not run."
                )

            def progressed(progress: ToolProgress) -> None:
                if time.renew():
                    invocation.report(progress)

            async def asked(request: InputRequest) -> InputAnswer:
                with time.stopped():
                    return await invocation.ask(self._shown(request))

            return await connection.call_tool(
                remote_name, invocation.arguments, progressed, asked, invocation.given
            )

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send another request, and return its result as the server sent it.

        Raises:
            RemoteError: It was refused, or the server does not work now.
            TimeoutError: It took too long.
        """
        async with self._used() as connection, asyncio.timeout(self._limits.call):
            return await connection.ask(method, params)

    @asynccontextmanager
    async def _used(self) -> AsyncIterator["SdkConnection"]:
        """Yield the connection for one request, and notice if that loses it."""
        if not await self.wait_ready(within=self._limits.start_wait) or self._connection is None:
            raise RemoteError(self._why_not(), unavailable=True)
        connection = self._connection
        try:
            yield connection
        except RemoteError as error:
            if (error.lost or self._needs_login()) and connection is self._connection:
                self._end(error.message)
            # What ended a program says more than that the connection did.
            message = (self._lost if error.lost else None) or error.message
            needs = error.needs
            if needs is not None:
                shown = {key: self._shown(each) for key, each in needs.requests.items()}
                needs = msgspec.structs.replace(needs, requests=shown)
            states = {"lost": error.lost, "unavailable": error.unavailable}
            raise RemoteError(self._redacted(message), **states, needs=needs) from error

    def _shown(self, request: InputRequest) -> InputRequest:
        """Return a question as people are shown it."""
        words = self._redacted(request.message, MAX_MESSAGE_CHARS)
        return msgspec.structs.replace(request, message=words, server=self.name)

    async def restart(self) -> None:
        """End the server if it runs, start it without a pause, and wait for the outcome."""
        if self._closing:
            return
        self._failures = 0
        self._restarting = True
        self._interrupt()
        self._start()
        await self.wait_ready(within=self._limits.start_wait)

    async def aclose(self) -> None:
        """End the server for good, within a bounded time."""
        self._closing = True
        self._interrupt()
        self._wanted.set()
        if self.login is not None:
            await self.login.aclose()
        supervisor = self._supervisor
        if supervisor is None:
            return
        _, running = await asyncio.wait([supervisor], timeout=self._limits.close)
        if running:
            supervisor.cancel()
            await asyncio.wait([supervisor], timeout=self._limits.close)
        self._set_state("stopped")

    def _start(self) -> None:
        self._began = _now()
        self._set_state("starting")
        self._wanted.set()
        if self._supervisor is None:
            # In a context of its own: it outlives the turn that needed it first.
            self._supervisor = asyncio.create_task(
                self._supervise(), name=f"mcp-{self.name}", context=contextvars.Context()
            )

    def _seconds_worth_waiting(self) -> float:
        """Return how many seconds to wait for the server at most."""
        if self.state == "starting":
            return self._began + self._limits.start_wait - _now()
        pause = self._resumes_at - _now()
        if self.state == "backing_off" and pause <= self._limits.pause_wait:
            return pause + self._limits.start_wait
        return 0.0

    def _why_not(self) -> str:
        if self.state == "starting":
            return "It is still starting."
        if self.state == "backing_off":
            seconds = max(1, round(self._resumes_at - _now()))
            return f"{self.error} It is tried again in {seconds} s at the earliest."
        return self.error or "It is not running."

    async def _supervise(self) -> None:
        """Run the server whenever it is needed, until it is closed."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self._closing:
                break
            self._restarting, self._lost, self._tools_changed = False, None, False
            self._wake.clear()
            if self.login is not None:
                self.login.needed = None
            self._began = _now()
            self._set_state("starting")
            stderr = ErrorOutput(self.name, self.spec.secrets)
            try:
                await self._run(stderr)
            except Exception as error:  # noqa: BLE001 - a server must not break others
                if not self._must_end():
                    self._failed(error, stderr)
                    await self._pause()
        self._set_state("stopped")

    async def _run(self, stderr: ErrorOutput) -> None:
        """Start the server and watch it; return when it is to be ended."""
        async with AsyncExitStack() as stack:
            async with self._attempt(self._limits.start):
                sdk = await asyncio.to_thread(importlib.import_module, "tools_app.mcp.connection")
                connection = await stack.enter_async_context(
                    sdk.connect(
                        self.spec,
                        stderr=stderr,
                        on_end=self._end,
                        on_change=self._note_changes,
                        call_headers=self._call_headers,
                        login=self.login,
                    )
                )
                await self._list(connection)
            self._connection = connection
            self.error = None
            self._set_state("ready")
            ready_at = _now()
            logger.info("MCP server %s has %d tools.", self.name, len(self.named.tools))
            try:
                await self._watch(connection)
            finally:
                self._connection = None
                if not self._must_end():
                    # The end of what is left of it takes seconds; callers wait for its successor.
                    self.error = self._redacted(self._lost or "The connection was lost.")
                    self._resumes_at = _now()
                    self._set_state("needs_login" if self._needs_login() else "backing_off")
                if _now() - ready_at >= self._limits.stable_after:
                    self._failures = 0

    async def _watch(self, connection: "SdkConnection") -> None:
        listed_at = _now()
        while True:
            rest = listed_at + self._limits.between_listings - _now()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, rest) if self._tools_changed else None):
                    await self._wake.wait()
            self._wake.clear()
            if self._must_end():
                return
            if self._lost is not None:
                raise RemoteError(self._lost)
            if self._tools_changed and _now() >= listed_at + self._limits.between_listings:
                self._tools_changed = False
                async with self._attempt(self._limits.start_wait):
                    await self._list(connection)
                listed_at = _now()

    @asynccontextmanager
    async def _attempt(self, seconds: float) -> AsyncIterator[None]:
        """Bound the time of the body, and let ``_interrupt`` end it."""
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

    async def _list(self, connection: "SdkConnection") -> None:
        self.named = name_tools(self.name, await connection.list_tools(), self.spec)

    async def _pause(self) -> None:
        if self._needs_login() is not None:
            self._set_state("needs_login")  # until somebody has logged in
            return
        pause = self._limits.first_pause * 2 ** min(self._failures - 1, 16)
        pause = min(self._limits.longest_pause, pause)
        pause *= random.uniform(0.5, 1.0)  # noqa: S311 - so that processes do not try all at once
        self._resumes_at = _now() + pause
        self._set_state("backing_off")
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                while not self._must_end():
                    self._wake.clear()
                    await self._wake.wait()
        if not self._wanted.is_set() and not self._must_end():
            self._set_state("failed")

    def _failed(self, error: Exception, stderr: ErrorOutput) -> None:
        self._failures += 1
        cause, login = self._lost or cause_of(error), self._needs_login() or ""
        self.error = self._redacted(cause if cause.startswith(login) else login)
        logger.warning("MCP server %s does not work: %s", self.name, self.error)
        if stderr.last_words:
            self.error = redacted(
                f"{self.error} Its last output: {stderr.last_words}", (), limit=MAX_ERROR_CHARS
            )

    def _must_end(self) -> bool:
        """Return whether the running server is to be ended, for good or to be restarted."""
        return self._closing or self._restarting

    async def _is_logged_in(self) -> bool:
        return self.login is not None and (await self.login.record()).tokens is not None

    def _needs_login(self) -> str | None:
        """Return that somebody has to log in, as a sentence."""
        return None if self.login is None else self.login.needed

    def _end(self, reason: str) -> None:
        """Record that the connection is lost."""
        if self._lost is None:
            self._lost = reason
            self._wake.set()

    def _note_changes(self) -> None:
        self._tools_changed = True
        self._wake.set()

    def _redacted(self, text: str, limit: int = MAX_ERROR_CHARS) -> str:
        return redacted(text, (self.login or self.spec).secrets, limit=limit)

    def _set_state(self, state: State) -> None:
        self.state = state
        changed, self._state_changed = self._state_changed, asyncio.Event()
        changed.set()


def _now() -> float:
    return asyncio.get_running_loop().time()
