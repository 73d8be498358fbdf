"""Declares the port to tools, and its values: listings, invocations, results."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from sessions_app.messages import Attachment, ToolSpec
from tools_app.elicitation import AskPerson, InputGiven, InputNeeded, decline

AGENT_TOOL = "agent"
"""The reserved name of the tool that calls agents."""
TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Names of tools that every provider accepts."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool: its specification for the model, and its properties.

    Attributes:
        spec: Name, description and JSON schema, as sent to the model.
        parameters: For people: ``{name: {"type": "float", "description": "..."}}``, with types in
            Python's notation.
        groups: The groups it belongs to.
        destructive: Whether the policy ``confirm_destructive`` asks before it runs.
        timeout_seconds: The longest time of a call that a function's module declares.
        file: The file that defines it, relative to its folder; None for an MCP tool.
        server: The MCP server that it belongs to; None for a function of a folder.
        digest: The digest of an MCP tool's description, to notice changes; None for a function.
        read_only: Whether it is an MCP tool that a trusted server declares as read-only.
        title: The MCP server's name of it for people; None without one.
        icons: The MCP server's icons of it, which nobody has fetched.
        instructions: What its MCP server tells models about its tools; None for nothing.
        resources: What it does with the MCP server's resources, if it is one of ours for that:
            ``read`` or ``list``.
        is_linked: Whether it is offered only once a result has linked to a resource.
        owners: The owners of data whose models may call it; None for all.
        delegated: Whether a call is a turn of its own (an agent's). It is offered without being
            selected, because it is listed only if the session enables agents, and needs no
            approval: policies apply to the agent's own tools.
    """

    spec: ToolSpec
    parameters: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    groups: Sequence[str] = ()
    destructive: bool = True
    timeout_seconds: float | None = None
    file: str | None = None
    server: str | None = None
    digest: str | None = None
    read_only: bool = False
    title: str | None = None
    icons: Sequence[Mapping[str, Any]] = ()
    instructions: str | None = None
    resources: Literal["read", "list"] | None = None
    is_linked: bool = False
    owners: Sequence[str] | None = None
    delegated: bool = False

    @property
    def name(self) -> str:
        """Return the name that the model calls it by."""
        return self.spec.name

    @property
    def is_built_in(self) -> bool:
        """Return whether it is neither of a folder nor of a server."""
        return self.file is None and self.server is None

    @property
    def queue(self) -> str | None:
        """Return the queue of its calls; None when they run concurrently with all others.

        Calls of one answer that share a queue run one at a time, in the model's order: concurrent
        read-modify-write could undo another's work (docs/decisions/0033).
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
    """The contents of a toolset: tools by name, names by group, and what is invalid."""

    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    invalid: Sequence[InvalidTool] = ()

    def of_owner(self, owner: str) -> "ToolListing":
        """Return the listing without the tools that an owner of data may not call."""
        tools = {n: t for n, t in self.tools.items() if t.owners is None or owner in t.owners}
        if len(tools) == len(self.tools):
            return self
        groups = {group: [n for n in names if n in tools] for group, names in self.groups.items()}
        groups = {group: names for group, names in groups.items() if names}
        return msgspec.structs.replace(self, tools=tools, groups=groups)


class ToolSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The tools a caller needs, so that toolsets without any of them need not start.

    Attributes:
        names: Single tools.
        group: A group whose tools are needed, too.
        agents: Agents that may be called.
    """

    names: Sequence[str] = ()
    group: str | None = None
    agents: Sequence[str] = ()


class ToolProgress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """The progress of a running tool, in units of its own."""

    progress: float | None = None
    total: float | None = None
    message: str | None = None


OnProgress = Callable[[ToolProgress], None]


def ignore_progress(progress: ToolProgress) -> None:
    """Ignore the progress."""


class ToolInvocation(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool.

    Attributes:
        name: The tool.
        arguments: The arguments as the model wrote them, not yet validated.
        session_id: The session that it runs for; empty for a call by hand.
        message_id: The assistant's message with the call; empty for a call by hand.
        tool_call_id: The model's call; empty for a call by hand.
        call_index: The call's number within its turn, from 0.
        digest: The tool's ``digest`` when it was offered, if any; a tool that has changed since
            does not run.
        report: Called on the event loop with the tool's progress.
        results: The whole texts of the session's long results, for ``read_result``; None for any
            other tool.
        links: The resources that results of the tool's MCP server have linked to in the session.
        result_tokens: How many tokens the result may take; None where that is unknown. Tools that
            can choose how much they return keep to it.
        ask: Asks the person of the turn what the tool's server wants to know.
        given: The answers to the questions with which the call ended before, if it did.
    """

    name: str
    arguments: Mapping[str, Any]
    session_id: str = ""
    message_id: str = ""
    tool_call_id: str = ""
    call_index: int = 0
    digest: str | None = None
    report: OnProgress = ignore_progress
    results: Sequence[Attachment] | None = None
    links: frozenset[str] = frozenset()
    result_tokens: int | None = None
    ask: AskPerson = decline
    given: InputGiven | None = None


class ToolFile(msgspec.Struct, frozen=True, kw_only=True):
    """An image or a file that a tool returned, not kept yet.

    Attributes:
        name: How people and models call it.
        data: Its bytes; what they are is found out when it is kept.
    """

    name: str
    data: bytes


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool call.

    Attributes:
        success: Whether the tool ran and returned.
        result: Its output, as text for the model; None when it failed.
        error_message: The failure, as text for model and user.
        error_code: The failure, for programs.
        server: The MCP server that ran it, if one did.
        files: What it returned beside the text, and a text that is cut, whole (``WHOLE_RESULT``);
            none once the catalogue has kept them.
        attachments: The images and files that are kept.
        links: The resources of its MCP server that it links to.
        needs: The questions that a person has to answer before the call is repeated; only with a
            failure, for those who can't ask.
    """

    success: bool
    result: str | None = None
    error_message: str | None = None
    error_code: str | None = None
    server: str | None = None
    files: Sequence[ToolFile] = ()
    attachments: tuple[Attachment, ...] = ()
    links: tuple[str, ...] = ()
    needs: InputNeeded | None = None


class Toolset(Protocol):
    """Tools that a model may be offered."""

    async def listing(self, selection: ToolSelection | None = None) -> ToolListing:
        """Return all tools, or at least those of the selection.

        Never raises because of the content of a folder or a configuration file: faults are listed
        as invalid.
        """
        ...

    async def call_tool(self, invocation: ToolInvocation) -> ToolResult:
        """Call a tool; failures of the tool are results, not exceptions.

        When the caller is cancelled, the tool has ended before the cancellation propagates.

        Raises:
            ToolNotFound: No tool of this name is in the set.
        """
        ...
