"""The port to tools: something that lists them and calls them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from sessions_app.messages import ToolSpec

AGENT_TOOL = "agent"
"""The name of the tool through which a model calls agents, which no other tool can have."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool and what is known of it beside what the model is told.

    Attributes:
        spec: What the model is offered: name, description and the whole JSON schema.
        parameters: For people: ``{name: {"type": "float", "description": "..."}}``, types as
            Python writes them (seed 000 section 9.6).
        groups: The groups it belongs to.
        destructive: Whether the policy ``confirm_destructive`` asks before it runs.
        file: The file it comes from, relative to its folder; None for an MCP tool.
        server: The MCP server it comes from; None for a function of a folder.
        digest: Tells an MCP tool from what its server may make of it later; None for a function.
        read_only: Whether it is an MCP tool of which a trusted server says that it only reads.
        delegated: Whether a call of it is a turn of its own (an agent's). Such a tool is offered
            without being named, because the session's settings are why it is listed at all, and
            nobody is asked about it: the agent's own tools are what policies concern.
    """

    spec: ToolSpec
    parameters: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    groups: Sequence[str] = ()
    destructive: bool = True
    file: str | None = None
    server: str | None = None
    digest: str | None = None
    read_only: bool = False
    delegated: bool = False

    @property
    def name(self) -> str:
        """The name that the model calls it by."""
        return self.spec.name

    @property
    def queue(self) -> str | None:
        """The queue that its calls wait in; None when they run side by side with all others.

        Calls of one answer that share a queue run one at a time, in the model's order: what one
        reads and writes back would undo what another wrote meanwhile.
        """
        if self.delegated:
            return None
        if self.server is not None:
            return None if self.read_only else f"server {self.server}"
        return "functions" if self.destructive else None


class InvalidTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, or a whole module (``name`` is the module's), that can't be offered, and why."""

    name: str
    file: str
    reason: str


class ToolListing(msgspec.Struct, frozen=True, kw_only=True):
    """What a toolset has: its tools by name, names by group, and what is wrong with the rest."""

    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    invalid: Sequence[InvalidTool] = ()


class ToolSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools somebody asks about: so that nobody waits for a toolset that has none of them.

    Attributes:
        names: Single tools.
        group: A group whose tools are meant too.
        agents: Agents that may be called.
    """

    names: Sequence[str] = ()
    group: str | None = None
    agents: Sequence[str] = ()


class ToolProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a running tool is, in units of its own; ``total`` and ``message`` may be unknown."""

    progress: float
    total: float | None = None
    message: str | None = None


def _unheard(progress: ToolProgress) -> None:
    """Nobody listens."""


class ToolInvocation(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool.

    Attributes:
        name: The tool.
        arguments: What the model passes, as it wrote them: not yet validated.
        session_id: The session on whose behalf it runs; empty when a person runs it by hand.
        message_id: The assistant's message that holds the call; empty likewise.
        tool_call_id: The model's call; empty likewise.
        call_index: The call's number within its turn, from 0.
        digest: The ``digest`` that the tool had when it was offered, if it had one: one that has
            changed since does not run.
        report: Called on the event loop when the tool tells how far it is.
    """

    name: str
    arguments: Mapping[str, Any]
    session_id: str = ""
    message_id: str = ""
    tool_call_id: str = ""
    call_index: int = 0
    digest: str | None = None
    report: Callable[[ToolProgress], None] = _unheard


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a tool call.

    Attributes:
        success: Whether the tool ran and returned.
        result: What it returned, as text for the model; None when it failed.
        error_message: What went wrong, as text for the model and the person.
        error_code: The machine-readable name of what went wrong.
        server: The MCP server that ran it, if one did.
    """

    success: bool
    result: str | None = None
    error_message: str | None = None
    error_code: str | None = None
    server: str | None = None


class Toolset(Protocol):
    """Tools that a model may be offered."""

    async def listing(self, selection: ToolSelection | None = None) -> ToolListing:
        """Return what there is: everything, or at least what of the selection is here.

        Never raises because of what a person put into a folder or a configuration file: that is
        listed as invalid.
        """
        ...

    async def call_tool(self, invocation: ToolInvocation) -> ToolResult:
        """Call a tool; failures of the tool are results, not exceptions.

        When the caller is cancelled, the tool has ended before the cancellation goes on.

        Raises:
            ToolNotFound: No tool of this name is in the set.
        """
        ...
