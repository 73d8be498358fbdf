"""Keeps a pool of hosts for one folder: as many as are needed at once, within limits."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from sessions_app.decoding import decode_as
from sessions_app.shielding import to_the_end
from tools_app.errors import EXECUTION_FAILED
from tools_app.hosts.fork_server_client import ForkServerClient, ForkServerUnavailable
from tools_app.hosts.host import Host, LoadFailed
from tools_app.hosts.output_log import printable
from tools_app.limits import HostLimits, ToolFolder
from tools_app.toolset import InvalidTool, OnProgress, ToolListing, ToolResult, ignore_progress

logger = logging.getLogger("tools_app.hosts")

_STOPPING = "The server is stopping."


class FolderUnusable(Exception):
    """No host can load the folder; the message says why."""


class HostPool:
    """Runs a folder's functions in tool processes.

    Each tool process runs one call at a time and is reused, so a module's memory outlives a call,
    in that process: it is never another owner's, who has other variables (docs/decisions/0210). One
    that was stopped or died is replaced when the next one is needed. Processes that a tool leaves
    behind end with its tool process.

    Args:
        fork_server: Starts the tool processes.
        folder: The folder.
        limits: Bounds on the tool processes.
        discovering: Bounds the discoveries of several pools, whose tool processes don't stay for
            these alone: a hundred folders may be discovered and one be called.
    """

    def __init__(
        self,
        fork_server: ForkServerClient,
        folder: ToolFolder,
        limits: HostLimits | None = None,
        *,
        discovering: asyncio.Semaphore | None = None,
    ) -> None:
        self._fork_server = fork_server
        self._folder = folder
        self._limits = limits or HostLimits()
        self._slots = asyncio.Semaphore(self._limits.processes)
        self._keeps_discoverer = discovering is None
        self._discovering = discovering or asyncio.Semaphore(1)
        self._idle: list[Host] = []  # the most recently used one is the last
        self._busy: set[Host] = set()
        self._generation = 0
        self._skip: dict[str, str] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._expiry: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def discover(self) -> ToolListing:
        """Load the folder in a new process and return its tools.

        A module that hangs, or ends the process, is listed as invalid, and later tool processes
        don't import it. Never raises because of what is in the folder.
        """
        async with self._discovering:
            try:
                host, report = await self._new_host(self._fork_server.added(), report=True)
            except FolderUnusable as error:
                return self._unusable(str(error))
            self._release(host)
            if not self._keeps_discoverer:
                self.let_go()
        try:
            return decode_as(report, ToolListing)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return self._unusable(f"What its process reports can't be understood: {error}")

    async def call(
        self,
        function: str,
        arguments: Mapping[str, Any],
        *,
        timeout_seconds: float,
        report: OnProgress = ignore_progress,
    ) -> ToolResult:
        """Call a function; failures are results.

        A cancellation ends whatever the call has started.

        Args:
            function: The name of a discovered function.
            arguments: What the model passes, not yet validated.
            timeout_seconds: How long it may run, not counting the wait for a free tool process or
                the start of one, which has a limit of its own.
            report: Called with the function's progress.
        """
        async with self._slots:
            try:
                variables = self._fork_server.added()
                host = self._take(variables) or (await self._new_host(variables))[0]
            except FolderUnusable as error:
                return ToolResult(
                    success=False, error_message=str(error), error_code=EXECUTION_FAILED
                )
            try:
                return await host.call(function, arguments, timeout_seconds, report)
            finally:
                self._release(host)

    def retire(self) -> None:
        """Run further calls in new processes; running calls finish in theirs."""
        self._generation += 1
        self._skip = {}
        retired, self._idle = self._idle, []
        for host in retired:
            self._end(host)

    def let_go(self) -> None:
        """End the idle tool processes now instead of after a while."""
        idle, self._idle = self._idle, []
        for host in idle:
            self._end(host)

    async def aclose(self) -> None:
        """End all hosts; running calls fail."""
        self._is_closed = True
        if self._expiry is not None:
            self._expiry.cancel()
        self.retire()
        for host in self._busy:
            self._end(host)
        while self._ending:
            await to_the_end(self._ending.pop())

    def _take(self, variables: Mapping[str, str]) -> Host | None:
        for host in self._idle[::-1]:
            if host.variables != variables:
                continue
            self._idle.remove(host)
            if host.is_usable and not self._is_closed:
                self._busy.add(host)
                return host
            self._end(host)  # it died, or sent something unrequested
        if self._idle and len(self._idle) + len(self._busy) >= self._limits.processes:
            self._end(self._idle.pop(0))  # of other variables, to make room
        return None

    def _release(self, host: Host) -> None:
        self._busy.discard(host)
        is_surplus = len(self._idle) + len(self._busy) >= self._limits.processes
        if not host.is_usable or host.generation != self._generation or is_surplus:
            self._end(host)
            return
        host.idle_since = asyncio.get_running_loop().time()
        self._idle.append(host)
        due = host.idle_since + self._limits.idle_seconds
        if self._expiry is None or self._expiry.when() > due:
            if self._expiry is not None:
                self._expiry.cancel()
            self._expiry = asyncio.get_running_loop().call_at(due, self._expire)

    async def _new_host(
        self, variables: Mapping[str, str], *, report: bool = False
    ) -> tuple[Host, msgspec.Raw]:
        """Start hosts until one has loaded the folder, skipping modules that failed.

        Raises:
            FolderUnusable: No host could.
        """
        generation, skip = self._generation, dict(self._skip)
        deadline = asyncio.get_running_loop().time() + self._limits.loading_seconds
        was_abandoned = False
        reason = ""
        for _ in range(self._limits.loading_attempts):
            host = await self._start(generation)
            host.variables = variables
            try:
                return host, await host.load(skip, report=report, deadline=deadline)
            except LoadFailed as failure:
                self._busy.discard(host)
                reason, module = failure.reason, failure.module
                started = failure.started
            except BaseException:
                self._busy.discard(host)
                raise
            if not started and not was_abandoned:
                was_abandoned = True
                self._fork_server.abandon(host.fork_server)  # it died with our request, or hangs
            elif module is None or module in skip:
                break
            else:
                skip[module] = reason
                logger.warning("%s, %s: %s", self._folder.name, printable(module), reason)
                if generation == self._generation:
                    self._skip[module] = reason
            if asyncio.get_running_loop().time() >= deadline:
                break
        raise FolderUnusable(f"The tools of {self._folder.name} can't be loaded: {reason}")

    async def _start(self, generation: int) -> Host:
        self._refuse_when_closed()
        try:
            ends = await self._fork_server.open()
        except ForkServerUnavailable as error:
            raise FolderUnusable(str(error)) from error
        host = Host(ends, self._folder, self._limits, self._fork_server.deadline)
        host.generation = generation
        self._busy.add(host)
        try:
            self._refuse_when_closed()  # meanwhile
        except FolderUnusable:
            self._busy.discard(host)
            await host.end()
            raise
        return host

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise FolderUnusable(_STOPPING)

    def _unusable(self, reason: str) -> ToolListing:
        entry = InvalidTool(name=self._folder.name, file="", reason=reason)
        return ToolListing(invalid=[entry])

    def _end(self, host: Host) -> None:
        """End an unused host in the background."""
        task = asyncio.create_task(host.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _expire(self) -> None:
        """End tool processes that were idle too long, and schedule the next check."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        due: list[float] = []
        kept: list[Host] = []
        for host in reversed(self._idle):
            seconds = self._limits.idle_seconds if kept else self._limits.last_idle_seconds
            if host.is_usable and host.idle_since + seconds > now:
                kept.append(host)
                due.append(host.idle_since + seconds)
            else:
                self._end(host)
        self._idle = kept[::-1]
        self._expiry = loop.call_at(min(due), self._expire) if due else None
