"""The port to tools: something that lists them and calls them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from sessions_app.messages import ToolSpec
from tools_app.errors import ToolNotFound


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a tool call.

    Attributes:
        success: Whether the tool ran and returned.
        result: What it returned, as text for the model; None when it failed.
        error_message: What went wrong, as text for the model and the person.
        error_code: The machine-readable name of what went wrong.
    """

    success: bool
    result: str | None = None
    error_message: str | None = None
    error_code: str | None = None


class Toolset(Protocol):
    """Tools that a model may be offered."""

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return what can be called."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool; failures of the tool are results, not exceptions.

        Raises:
            ToolNotFound: No tool of this name is in the set.
        """
        ...


class NoTools:
    """A toolset without tools: every call of a model is a call of an unknown tool."""

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return nothing."""
        return ()

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:  # noqa: ARG002
        """Refuse the call.

        Raises:
            ToolNotFound: Always.
        """
        raise ToolNotFound(name)
