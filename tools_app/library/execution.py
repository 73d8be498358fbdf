"""Runs functions in this process, after asking whoever must be asked: the library class."""

import asyncio
import inspect
import time
from collections import deque
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
"""Asked with the tool's name and its arguments; only ``True`` itself is a yes."""


class ToolExecutionPolicy(StrEnum):
    """Who must be asked before a tool runs."""

    ALWAYS_CONFIRM = ALWAYS_CONFIRM
    NEVER_CONFIRM = NEVER_CONFIRM
    CONFIRM_DESTRUCTIVE = CONFIRM_DESTRUCTIVE


class ToolExecutionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a tool call.

    Attributes:
        success: Whether the tool ran and returned.
        result: What it returned, as text; what was no text is JSON. None when it failed.
        error_message: What went wrong.
        execution_time: How long it ran, in seconds; asking is not counted.
        tool_name: The tool.
    """

    success: bool
    result: str | None = None
    error_message: str | None = None
    execution_time: float = 0.0
    tool_name: str


class ToolExecutionStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What the executions that are kept have in common.

    Attributes:
        total: How many there are.
        successful: How many of them returned.
        failed: How many did not, those that were denied included.
        average_time: How long they ran on average, in seconds.
        by_tool: How many there are of each tool.
    """

    total: int
    successful: int
    failed: int
    average_time: float
    by_tool: Mapping[str, int]


class ToolExecutionService:
    """Runs tools (seed 000 section 13.7). Usable as a library.

    Functions run in this process, without a limit of time: the server never does this.

    Args:
        tools: Where the functions are. Those of a plain mapping all count as destructive.
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
        """Run a tool and return what came of it; coroutine functions too. Never raises.

        Args:
            name: The tool.
            arguments: Its arguments, which are validated and coerced.
            policy: Who must be asked; an unknown policy counts as ``always_confirm``.
            overrides: Policies of single tools, by name.
            confirm: Asks; without it, what needs to be asked is denied.
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
        """Do as :meth:`execute`; functions that are no coroutine functions run in threads."""
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
        except Exception as error:  # noqa: BLE001 - the tool's own, and told to whoever called it
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
        """Return the function and its arguments, once whoever must be asked has said yes."""
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
        """Return the last hundred executions, the newest last."""
        return list(self._history)

    def get_statistics(self) -> ToolExecutionStatistics:
        """Return what the last hundred executions have in common."""
        history = self.get_history()
        successful = sum(result.success for result in history)
        by_tool: dict[str, int] = {}
        for result in history:
            by_tool[result.tool_name] = by_tool.get(result.tool_name, 0) + 1
        seconds = sum(result.execution_time for result in history)
        return ToolExecutionStatistics(
            total=len(history),
            successful=successful,
            failed=len(history) - successful,
            average_time=seconds / len(history) if history else 0.0,
            by_tool=by_tool,
        )


class _Refused(Exception):
    """The tool may not or can't run; the message is for whoever called it."""


class _Request(NamedTuple):
    name: str
    arguments: Mapping[str, Any]
    policy: str
    overrides: Mapping[str, str]
    confirm: Confirm | None


class _Place(Protocol):
    """Where blocking functions are called, and where is waited for the others."""

    async def call(self, function: Callable[[], Any]) -> Any: ...

    async def wait(self, awaitable: Awaitable[Any]) -> Any: ...


class _OnTheLoop:
    async def call(self, function: Callable[[], Any]) -> Any:
        return await asyncio.to_thread(function)

    async def wait(self, awaitable: Awaitable[Any]) -> Any:
        return await awaitable


class _InThisThread:
    """Never suspends: what is called here may start an event loop of its own."""

    async def call(self, function: Callable[[], Any]) -> Any:
        return function()

    async def wait(self, awaitable: Awaitable[Any]) -> Any:
        async def waited() -> Any:
            return await awaitable

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(waited())
        with ThreadPoolExecutor(1) as thread:  # the caller is itself within a loop
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
