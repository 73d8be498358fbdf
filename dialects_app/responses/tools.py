"""Parses the tools of a request and its tool choice. Pure.

Functions are run by the client. Tools of this server are those of the MCP server ``mochi``: they
run here and appear as calls of that server.
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
from dialects_app.shared.fields import refuse
from sessions_app.messages import NO_EXTRA, ToolSpec
from sessions_app.session import AGENT_PREFIX, AgentSettings, Session, ToolSettings

_IS_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII).fullmatch
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
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
        server: The tools of this server; None if it offers none.
        choice: The tool choice.
    """

    client: Sequence[ToolSpec] = ()
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


def read_tools(tools: Sequence[ToolIn], choice: str | Mapping[str, Any] | None) -> OfferedTools:
    """Return the tools of a request.

    Raises:
        ValidationFailed: A tool or the choice is invalid; ``field`` is its path.
    """
    client: dict[str, ToolSpec] = {}
    server: ServerTools | None = None
    for index, tool in enumerate(tools):
        path = f"tools[{index}]"
        if tool.type == "function":
            spec = _function(tool, path)
            if spec.name in client:
                refuse(f"{path}.name", f"Two tools have the name {shown(spec.name)}.")
            client[spec.name] = spec
        elif tool.type == "mcp":
            if server is not None:
                refuse(path, "The tools of this server are offered once.")
            server = _server_tools(tool, path)
        else:
            refuse(
                f"{path}.type",
                f"Tools of the type {shown(tool.type)} are not taken, only 'function', and 'mcp' "
                f"with the server_label '{SERVER_LABEL}'.",
            )
    offered = OfferedTools(client=tuple(client.values()), server=server)
    return _chosen(offered, choice)


def _function(tool: ToolIn, path: str) -> ToolSpec:
    if tool.name is None:
        refuse(f"{path}.name", f"Missing required parameter: '{path}.name'.")
    if not _IS_NAME(tool.name):
        refuse(f"{path}.name", "A function's name has 1 to 64 letters, digits, '_' and '-'.")
    return ToolSpec(
        name=tool.name,
        description=tool.description or "",
        parameters=tool.parameters or _NO_PARAMETERS,
    )


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
        refuse("tool_choice", "'tool_choice' is only allowed when 'tools' are specified.")
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
    return OfferedTools(
        client=client, server=server, choice="auto" if mode == "auto" else "required"
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
    if kind != "function":
        refuse(f"{path}.type", f"Choices of the type {shown(kind)} are not taken.")
    if not isinstance(name, str) or name not in client:
        refuse(f"{path}.name", f"There is no function {shown(name)} in 'tools'.")
    return (name,)
