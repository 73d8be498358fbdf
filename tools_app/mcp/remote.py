"""What a connection to a server gives, as values that know nothing of the SDK."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tools_app.toolset import ToolProgress


class RemoteTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server describes it: nothing of this is checked yet.

    Attributes:
        name: The name that the server knows it by.
        description: What the model is told.
        input_schema: The JSON schema of its arguments.
        read_only: Whether the server says that it changes nothing.
        destructive: Whether it may destroy something; the server can say that it does not.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    read_only: bool = False
    destructive: bool = True


class RemoteListing(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a server, and whether there were more than are taken."""

    tools: Sequence[RemoteTool] = ()
    cut: bool = False


class RemoteResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a call returned, as text, and whether the server calls it a failure."""

    text: str
    is_error: bool = False


class RemoteError(Exception):
    """A request failed, or the server can't be used.

    Attributes:
        message: Why, as a sentence; not redacted yet.
        lost: Whether the connection is of no use any more.
    """

    def __init__(self, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.lost = lost


OnProgress = Callable[[ToolProgress], None]


class Connection(Protocol):
    """A server that was started, or reached, and has said who it is."""

    async def list_tools(self) -> RemoteListing:
        """Return what tools there are.

        Raises:
            RemoteError: The server did not say, or not in a form that is one.
        """
        ...

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress
    ) -> RemoteResult:
        """Call a tool by the server's own name for it; cancelled, the server is told so first.

        Raises:
            RemoteError: The server refused, broke off, or answered with what is no result.
        """
        ...
