"""Defines what passes between a server and its users, without the SDK."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tools_app.elicitation import InputNeeded


class RemoteTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server describes it, not validated.

    Attributes:
        name: The server's name for it.
        description: The description for the model.
        input_schema: The JSON schema of its arguments.
        read_only: Whether the server declares it as read-only.
        destructive: False if the server declares it as not destructive.
        title: Its name for people.
        icons: Its icons, as far as they can be shown.
        output_schema: The JSON schema of its structured results.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    read_only: bool = False
    destructive: bool = True
    title: str | None = None
    icons: Sequence[Mapping[str, Any]] = ()
    output_schema: Mapping[str, Any] | None = None


class RemoteListing(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a server, and what it says of their use.

    Attributes:
        tools: The tools.
        refused: The names of others, with the reasons.
        cut: Whether there are more.
        instructions: What the server wants models to know.
        has_resources: Whether the server has resources, too.
    """

    tools: Sequence[RemoteTool] = ()
    refused: Sequence[tuple[str, str]] = ()
    cut: bool = False
    instructions: str | None = None
    has_resources: bool = False


class RemoteError(Exception):
    """A request failed, or the server can't be used.

    Attributes:
        message: The reason as a sentence, not redacted.
        lost: Whether the connection can't be used any more.
        unavailable: Whether the server could not even be asked.
        needs: The questions that a person has to answer before the call is repeated.
    """

    def __init__(
        self,
        message: str,
        *,
        lost: bool = False,
        unavailable: bool = False,
        needs: InputNeeded | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.lost = lost
        self.unavailable = unavailable
        self.needs = needs


class LoginRefused(RemoteError):
    """The authorization server refused; to try the same again is no use."""


CallHeaders = Callable[[], Mapping[str, str]]
"""Returns the headers for requests of the current task's tool call."""


class ToolCallHeaders(msgspec.Struct, frozen=True):
    """Holds what makes the headers of tool calls; None for none."""

    make: CallHeaders | None = None


def cause_of(error: BaseException) -> str:
    """Return the cause as a sentence: SDK and transports wrap it in exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(message := getattr(error, "message", None), str):
        return message  # of RemoteError, or of the SDK's MCPError
    if isinstance(error, TimeoutError):
        return "It did not answer in time."
    return f"{type(error).__name__}: {error}" if str(error) else f"{type(error).__name__}."


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object that a server sent; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}
