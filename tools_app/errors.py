"""Defines the errors of tools.

The tree::

    MochiError
      + ToolError
        * ToolNotFound            TOOL_NOT_FOUND
        * ArgumentsInvalid        VALIDATION_ERROR
        * ToolServerNotFound      NOT_FOUND
        * ServerPromptNotFound    NOT_FOUND
        * ToolServerUnavailable   SERVICE_UNAVAILABLE (retryable)
        * LoginNotOffered         LOGIN_NOT_OFFERED

Failures of a running tool are results, not exceptions, with one of the codes below.
"""

from collections.abc import Sequence

from sessions_app.errors import MochiError

# ``error_code`` of a failed ``tool_result`` (docs/events.md).
EXECUTION_FAILED = "TOOL_EXECUTION_FAILED"
EXECUTION_DENIED = "TOOL_EXECUTION_DENIED"
CONFIRMATION_TIMEOUT = "TOOL_CONFIRMATION_TIMEOUT"
INVALID_ARGUMENTS = "VALIDATION_ERROR"
TIMED_OUT = "SERVICE_UNAVAILABLE"
UNAVAILABLE = "SERVICE_UNAVAILABLE"
CANCELLED = "CANCELLED"  # only in the record of calls: a cancelled call has no result


class ToolError(MochiError):
    """Base class: an error before a tool runs."""


class ToolNotFound(ToolError):
    """No tool of this name is offered."""

    code = "TOOL_NOT_FOUND"

    def __init__(self, tool_name: str) -> None:
        super().__init__(f"There is no tool named {tool_name!r}.", tool_name=tool_name)


class ArgumentsInvalid(ToolError):
    """The arguments don't fit the function; the message tells a model what to correct."""

    code = INVALID_ARGUMENTS

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__(" ".join(faults))
        self.faults = list(faults)


class ToolServerNotFound(ToolError):
    """``mcp.json`` configures no server of this name."""

    code = "NOT_FOUND"

    def __init__(self, server: str) -> None:
        super().__init__(f"There is no MCP server named {server!r} in mcp.json.", server=server)


class ServerPromptNotFound(ToolError):
    """An MCP server has no prompt of this name."""

    code = "NOT_FOUND"

    def __init__(self, server: str, prompt: str) -> None:
        super().__init__(
            f"The MCP server {server!r} has no prompt named {prompt!r}.", server=server
        )


class ToolServerUnavailable(ToolError):
    """A configured MCP server does not work now."""

    code = UNAVAILABLE
    retryable = True

    def __init__(self, server: str, reason: str, *, retryable: bool = True) -> None:
        super().__init__(f"The MCP server {server!r} can't be used: {reason}", server=server)
        self.retryable = retryable


class LoginNotOffered(ToolError):
    """Nobody can log in to an MCP server, or not again."""

    code = "LOGIN_NOT_OFFERED"

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"Nobody can log in to the MCP server {server!r}: {reason}", server=server)
