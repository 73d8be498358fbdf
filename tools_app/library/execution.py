"""Runs tools in this process, with approvals, for users of the library."""

import asyncio
import inspect
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from tools_app.errors import ToolError, ToolNotFound
from tools_app.functions.schema import SchemaError, bind
from tools_app.library.discovery import ToolDiscoveryService
from tools_app.policy import ALWAYS_CONFIRM, CONFIRM_DESTRUCTIVE, NEVER_CONFIRM, must_ask
from tools_app.text import text_of, words_of

KEPT = 100

Confirm = Callable[[str, Mapping[str, Any]], bool | Awaitable[bool]]
"""Called with the tool's name and arguments; only ``True`` itself approves."""


class ToolExecutionPolicy(StrEnum):
    """Names the policies for approvals of tool calls."""

    ALWAYS_CONFIRM = ALWAYS_CONFIRM
    NEVER_CONFIRM = NEVER_CONFIRM
    CONFIRM_DESTRUCTIVE = CONFIRM_DESTRUCTIVE


class ToolExecutionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool call.

    Attributes:
        success: Whether the tool ran and returned.
        result: Its output: a string unchanged, anything else as JSON. None when it failed.
        error_message: The failure.
        execution_time: Its duration in seconds, without the time for approval.
        tool_name: The tool.
    """

    success: bool
    result: str | None = None
    error_message: str | None = None
    execution_time: float = 0.0
    tool_name: str


class ToolExecutionStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the executions that are kept.

    Attributes:
        total: Their number.
        successful: The number that returned.
        failed: The number that did not, denied ones included.
        average_time: Their average duration in seconds.
        by_tool: Their number by tool.
    """

    total: int
    successful: int
    failed: int
    average_time: float
    by_tool: Mapping[str, int]


class ToolExecutionService:
    """Runs tools, and keeps a history of the executions.

    Functions run in this process, without a time limit. (The server runs them in tool processes.)

    Args:
        tools: The functions. Those of a plain mapping all count as destructive.
    """

    def __init__(self, tools: ToolDiscoveryService | Mapping[str, Callable[..., Any]]) -> None:
        self._tools = tools
        self._history: deque[ToolExecutionResult] = deque(maxlen=KEPT)

    def execute(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        policy: str = ALWAYS_CONFIRM,
        overrides: Mapping[str, str] | None = None,
        confirm: Confirm | None = None,
    ) -> ToolExecutionResult:
        """Run a tool, which may be a coroutine function, and return its result. Never raises.

        Args:
            name: The tool.
            arguments: Its arguments, which are validated and coerced.
            policy: Which calls need approval; an unknown policy counts as ``always_confirm``.
            overrides: Policies of single tools, by name.
            confirm: Asks for approval; without it, calls that need approval are denied.
        """
        request = _Request(name, arguments, policy, overrides or {}, confirm)
        return _driven(self._execute(request, _InThisThread()))

    async def aexecute(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        policy: str = ALWAYS_CONFIRM,
        overrides: Mapping[str, str] | None = None,
        confirm: Confirm | None = None,
    ) -> ToolExecutionResult:
        """Run a tool as :meth:`execute` does; functions that are not coroutines run in threads."""
        request = _Request(name, arguments, policy, overrides or {}, confirm)
        return await self._execute(request, _OnTheLoop())

    async def _execute(self, request: "_Request", place: "_Place") -> ToolExecutionResult:
        started = time.perf_counter()
        try:
            function, values = await self._prepared(request, place)
            started = time.perf_counter()
            outcome: dict[str, Any] = {"result": await _run(function, values, place)}
        except (ToolError, SchemaError, _Refused) as error:
            outcome = {"error_message": str(error)}
        except Exception as error:  # noqa: BLE001 - the tool's own; returned to the caller
            outcome = {"error_message": words_of(error)}
        result = ToolExecutionResult(
            success="result" in outcome,
            execution_time=time.perf_counter() - started,
            tool_name=request.name,
            **outcome,
        )
        self._history.append(result)
        return result

    async def _prepared(
        self, request: "_Request", place: "_Place"
    ) -> tuple[Callable[..., Any], Mapping[str, Any]]:
        """Return the function and its bound arguments, after approval if it is needed."""
        if isinstance(self._tools, ToolDiscoveryService):
            functions = await place.call(self._tools.discover_tools)
            is_destructive = self._tools.is_destructive(request.name)
        else:
            functions, is_destructive = self._tools, True
        if request.name not in functions:
            raise ToolNotFound(request.name)
        function = functions[request.name]
        values = bind(function, request.arguments)
        if must_ask(
            tool_name=request.name,
            destructive=is_destructive,
            policy=request.policy,
            overrides=request.overrides,
        ):
            await _ask(request, place)
        return function, values

    def get_history(self) -> Sequence[ToolExecutionResult]:
        """Return the last 100 executions, the newest last."""
        return list(self._history)

    def get_statistics(self) -> ToolExecutionStatistics:
        """Return statistics of the last 100 executions."""
        history = self.get_history()
        successful = sum(result.success for result in history)
        seconds = sum(result.execution_time for result in history)
        return ToolExecutionStatistics(
            total=len(history),
            successful=successful,
            failed=len(history) - successful,
            average_time=seconds / len(history) if history else 0.0,
            by_tool=dict(Counter(result.tool_name for result in history)),
        )


class _Refused(Exception):
    """The tool may not or can't run; the message is for the caller."""


class _Request(NamedTuple):
    name: str
    arguments: Mapping[str, Any]
    policy: str
    overrides: Mapping[str, str]
    confirm: Confirm | None


class _Place(Protocol):
    """Calls functions and awaits awaitables, with or without an event loop."""

    async def call(self, function: Callable[[], Any]) -> Any: ...

    async def wait(self, awaitable: Awaitable[Any]) -> Any: ...


class _OnTheLoop:
    async def call(self, function: Callable[[], Any]) -> Any:
        return await asyncio.to_thread(function)

    async def wait(self, awaitable: Awaitable[Any]) -> Any:
        return await awaitable


class _InThisThread:
    """Never suspends: an awaitable gets an event loop of its own."""

    async def call(self, function: Callable[[], Any]) -> Any:
        return function()

    async def wait(self, awaitable: Awaitable[Any]) -> Any:
        async def waited() -> Any:
            return await awaitable

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(waited())
        with ThreadPoolExecutor(1) as thread:  # the caller runs in an event loop itself
            return thread.submit(asyncio.run, waited()).result()


def _driven(run: Coroutine[Any, Any, ToolExecutionResult]) -> ToolExecutionResult:
    """Run a coroutine that never suspends."""
    try:
        run.send(None)
    except StopIteration as done:
        result: ToolExecutionResult = done.value
        return result
    raise RuntimeError("Something waited for an event loop, and there is none.")


async def _ask(request: _Request, place: _Place) -> None:
    if request.confirm is None:
        raise _Refused(f"The tool {request.name!r} needs approval, and there is nobody to ask.")
    answer = request.confirm(request.name, request.arguments)
    if inspect.isawaitable(answer):
        answer = await place.wait(answer)
    if answer is not True:
        raise _Refused(f"The call of {request.name!r} was denied.")


async def _run(function: Callable[..., Any], values: Mapping[str, Any], place: _Place) -> str:
    try:
        if inspect.iscoroutinefunction(inspect.unwrap(function)):
            value = function(**values)
        else:
            value = await place.call(lambda: function(**values))
        if inspect.isawaitable(value):
            value = await place.wait(value)
    except SystemExit as error:
        raise _Refused("The tool wanted to end the process (sys.exit).") from error
    return text_of(value)
