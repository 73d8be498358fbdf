"""Parses the tools of a request and its tool choice. Pure.

Functions and custom tools are run by the client. Tools of this server are those of the MCP server
``mochi``: they run here and appear as calls of that server. Tools that a provider would host are
left out, with a warning: clients always send some (docs/decisions/0168).
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from chat.start.turn_request import ToolChoice
from dialects_app.responses.body import ToolIn
from dialects_app.responses.content import shown
from dialects_app.responses.output_items import SERVER_LABEL
from dialects_app.responses.tool_forms import (
    LONGEST_NAME,
    NO_FORMS,
    TEXT_PARAMETER,
    ToolForm,
    ToolForms,
    form_of,
    offered_name,
)
from dialects_app.shared.body import convert_body
from dialects_app.shared.fields import refuse, renamed_fields, required
from sessions_app.bounds import MOST_ITEMS
from sessions_app.messages import NO_EXTRA, ToolSpec
from sessions_app.session import AGENT_PREFIX, AgentSettings, Session, ToolSettings

_IS_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII).fullmatch
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_TEXT_ALONE: Mapping[str, Any] = {
    "type": "object",
    "properties": {TEXT_PARAMETER: {"type": "string"}},
    "required": [TEXT_PARAMETER],
}
_CLIENT_TYPES = ("function", "custom")
_POLICY = {"always": "always_confirm", "never": "never_confirm"}


class ServerTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of this server in a request.

    Attributes:
        names: Their names; None for all.
        agents: Names of agents; None uses those of the session.
        policy: The requested execution policy; None uses that of the session.
        policies: Policies of single tools.
    """

    names: Sequence[str] | None = None
    agents: Sequence[str] | None = None
    policy: str | None = None
    policies: Mapping[str, str] = NO_EXTRA


class OfferedTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a request.

    Attributes:
        client: The tools that the client runs.
        forms: The forms of those that are not plain functions, by name.
        paths: The paths in the request of the client's tools, by name.
        server: The tools of this server; None if it offers none.
        choice: The tool choice.
        left_out: A sentence for each tool that can't be offered, beginning with its path.
    """

    client: Sequence[ToolSpec] = ()
    forms: ToolForms = NO_FORMS
    paths: Mapping[str, str] = NO_EXTRA
    left_out: Sequence[str] = ()
    server: ServerTools | None = None
    choice: ToolChoice = "auto"

    @property
    def has_some(self) -> bool:
        """Return whether the model may call any tool."""
        return self.choice != "none" and bool(self.client or self.server)


def changed_settings(session: Session, model: str, server: ServerTools | None) -> dict[str, Any]:
    """Return the session settings that a request with these tools changes."""
    settings: dict[str, Any] = {}
    if model != session.metadata.model:
        settings["model"] = model
    if server is None:
        return settings
    if server.policy is not None or server.policies:
        known = session.metadata.tool_settings or ToolSettings()
        settings["tool_settings"] = msgspec.structs.replace(
            known,
            execution_policy=server.policy or known.execution_policy,
            tool_policies={**known.tool_policies, **server.policies},
            tool_scopes={
                name: scopes
                for name, scopes in known.tool_scopes.items()
                if name not in server.policies
            },
        )
    if server.agents is not None:
        settings["agent_settings"] = AgentSettings(enabled_agents=server.agents)
    return settings


def additional_tools(value: Any) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Return the tools of ``additional_tools`` items, with their paths.

    Raises:
        ValidationFailed: An item has no list of objects.
    """
    found: list[tuple[str, Mapping[str, Any]]] = []
    for at, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, dict) and item.get("type") == "additional_tools":
            path = f"input[{at}].tools"
            tools = item.get("tools")
            if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
                refuse(path, "A list of tools is wanted here.")
            found += [(f"{path}[{index}]", tool) for index, tool in enumerate(tools)]
    return found


def read_tools(
    tools: Sequence[ToolIn],
    choice: str | Mapping[str, Any] | None,
    more: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> OfferedTools:
    """Return the tools of a request.

    Args:
        tools: Its tools.
        choice: Its tool choice.
        more: The ``additional_tools`` of its input, with their paths; of two with the same name,
            the later one is offered.

    Raises:
        ValidationFailed: A tool or the choice is invalid; ``field`` is its path.
    """
    reader = _Reader()
    for index, tool in enumerate(tools):
        reader.read(tool, f"tools[{index}]")
    reader.replaces = True
    for path, value in more:
        reader.read(_tool_in(value, path), path)
    return _chosen(reader.offered(), choice)


class _Reader:
    """Collects the tools of a request.

    Attributes:
        replaces: Whether a tool may have the name of an earlier one.
    """

    def __init__(self) -> None:
        self.replaces = False
        self._client: dict[str, ToolSpec] = {}
        self._forms: dict[str, ToolForm] = {}
        self._paths: dict[str, str] = {}
        self._server: ServerTools | None = None
        self._left_out: list[str] = []
        self._count = 0

    def read(self, tool: ToolIn, path: str, namespace: str | None = None) -> None:
        """Add a tool, or those of a namespace, or a warning in place of what is not offered."""
        self._count += 1
        if self._count > MOST_ITEMS:
            refuse(path, f"A request has no more than {MOST_ITEMS:,} tools.")
        if tool.type in _CLIENT_TYPES:
            self._add_client_tool(tool, path, namespace)
        elif tool.type == "namespace" and namespace is None:
            name = _name(tool, path)
            for index, inner in enumerate(tool.tools or ()):
                place = f"{path}.tools[{index}]"
                self.read(_tool_in(inner, place), place, name)
        elif tool.type == "mcp" and namespace is None:
            if self._server is not None:
                refuse(path, "The tools of this server are offered once.")
            self._server = _server_tools(tool, path)
        else:
            self._left_out.append(f"{path}: {tool.type[:LONGEST_NAME]} is not available here")

    def offered(self) -> OfferedTools:
        """Return the tools."""
        return OfferedTools(
            client=tuple(self._client.values()),
            forms=self._forms,
            paths=self._paths,
            server=self._server,
            left_out=self._left_out,
        )

    def _add_client_tool(self, tool: ToolIn, path: str, namespace: str | None) -> None:
        is_custom = tool.type == "custom"
        own_name = _name(tool, path)
        name = offered_name(own_name, namespace)
        if name in self._client and not self.replaces:
            refuse(f"{path}.name", f"Two tools have the name {shown(name)}.")
        self._forms.pop(name, None)
        form = form_of(own_name, namespace, is_custom=is_custom)
        if form is not None:
            self._forms[name] = form
        self._paths[name] = path
        self._client[name] = ToolSpec(
            name=name,
            description=_description(tool, path),
            parameters=_TEXT_ALONE if is_custom else tool.parameters or _NO_PARAMETERS,
        )


def _tool_in(value: Mapping[str, Any], path: str) -> ToolIn:
    with renamed_fields(lambda field: path if field == "body" else f"{path}.{field}"):
        return convert_body(value, ToolIn)


def _name(tool: ToolIn, path: str) -> str:
    if tool.name is None:
        refuse(f"{path}.name", f"Missing required parameter: '{path}.name'.")
    if not _IS_NAME(tool.name):
        refuse(f"{path}.name", "A tool's name has 1 to 64 letters, digits, '_' and '-'.")
    return tool.name


def _description(tool: ToolIn, path: str) -> str:
    """Return a description, which tells models about the text that a custom tool takes."""
    description = tool.description or ""
    if tool.type != "custom" or tool.format is None or tool.format.get("type") == "text":
        return description
    definition = required(tool.format, "definition", f"{path}.format")
    return f"{description}\n\nThe input is free text in this format:\n{definition}".lstrip()


def _server_tools(tool: ToolIn, path: str) -> ServerTools:
    if tool.server_label != SERVER_LABEL:
        refuse(
            f"{path}.server_label",
            f"The only MCP server that can be used here is '{SERVER_LABEL}': the tools of this "
            "server, and those of its own MCP servers.",
        )
    names = _names(tool.allowed_tools, f"{path}.allowed_tools")
    policy, policies = _policies(tool.require_approval, f"{path}.require_approval")
    agents = [name for name in names or () if name.startswith(AGENT_PREFIX)]
    return ServerTools(
        names=None if names is None else tuple(name for name in names if name not in agents),
        agents=tuple(name.removeprefix(AGENT_PREFIX) for name in agents) or None,
        policy=policy,
        policies=policies,
    )


def _policies(value: Any, path: str) -> tuple[str | None, Mapping[str, str]]:
    """Return the policy of all tools and those of single ones."""
    if value is None:
        return None, {}
    if isinstance(value, str):
        if value not in _POLICY:
            refuse(path, f"Invalid value: {shown(value)}. 'always' and 'never' are supported.")
        return _POLICY[value], {}
    if not isinstance(value, dict):
        refuse(path, "'always', 'never' or an object is wanted here.")
    return None, {
        name: policy
        for word, policy in _POLICY.items()
        for name in _names(value.get(word), f"{path}.{word}") or ()
    }


def _names(value: Any, path: str) -> Sequence[str] | None:
    """Return tool names from a list, or from an object with a list; None for null."""
    if isinstance(value, dict):
        value, path = value.get("tool_names"), f"{path}.tool_names"
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        refuse(path, "A list of names of tools is wanted here.")
    return tuple(dict.fromkeys(value))


def _chosen(offered: OfferedTools, choice: str | Mapping[str, Any] | None) -> OfferedTools:
    if choice is None or choice == "auto":
        return offered
    if choice == "none":
        return msgspec.structs.replace(offered, choice="none")
    if not (offered.client or offered.server):
        refuse("tool_choice", "'tool_choice' needs 'tools', and some that this server can offer.")
    if choice == "required":
        return msgspec.structs.replace(offered, choice="required")
    if isinstance(choice, str):
        refuse(
            "tool_choice",
            f"Invalid value: {shown(choice)}. Supported values are: 'none', 'auto', 'required' and "
            "an object that names tools.",
        )
    if choice.get("type") == "allowed_tools":
        return _allowed(offered, choice)
    names = _named(offered, {spec.name for spec in offered.client}, choice, "tool_choice")
    return msgspec.structs.replace(offered, choice=names or "required")


def _allowed(offered: OfferedTools, choice: Mapping[str, Any]) -> OfferedTools:
    """Return the tools, restricted to allowed ones."""
    mode, tools = choice.get("mode"), choice.get("tools")
    if mode not in {"auto", "required"}:
        refuse("tool_choice.mode", "Supported values are: 'auto' and 'required'.")
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        refuse("tool_choice.tools", "A list of tools is wanted here.")
    client_names = {spec.name for spec in offered.client}
    names = {
        name
        for index, tool in enumerate(tools)
        for name in _named(offered, client_names, tool, f"tool_choice.tools[{index}]")
    }
    server = offered.server
    if server is not None and not any(tool.get("type") == "mcp" for tool in tools):
        server = None
    elif server is not None and server.names is not None:
        kept = tuple(name for name in server.names if name in names) or server.names
        server = msgspec.structs.replace(server, names=kept)
    client = [tool for tool in offered.client if tool.name in names]
    return msgspec.structs.replace(
        offered, client=client, server=server, choice="auto" if mode == "auto" else "required"
    )


def _named(
    offered: OfferedTools, client: AbstractSet[str], tool: Mapping[str, Any], path: str
) -> Sequence[str]:
    """Return the names of a choice: one, or none for all tools of this server."""
    kind, name = tool.get("type"), tool.get("name")
    if kind == "mcp" and offered.server is not None:
        if tool.get("server_label") not in {None, SERVER_LABEL}:
            refuse(f"{path}.server_label", f"Only '{SERVER_LABEL}' is offered.")
        return (name,) if isinstance(name, str) else offered.server.names or ()
    if kind not in _CLIENT_TYPES:
        refuse(f"{path}.type", f"Choices of the type {shown(kind)} are not taken.")
    namespace = tool.get("namespace")
    if isinstance(name, str):
        name = offered_name(name, namespace if isinstance(namespace, str) else None)
    if not isinstance(name, str) or name not in client:
        refuse(f"{path}.name", f"There is no {kind} {shown(name)} in 'tools'.")
    return (name,)
