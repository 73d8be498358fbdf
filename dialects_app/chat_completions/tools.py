"""Parses the tools of a request and its tool choice. Pure.

Tools in the body are run by the client. Those of this server run only for profiles and agents, or
if a header names them, and are never reported as calls, because a client would try to run them.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from dialects_app.chat_completions.body import CompletionIn, FunctionIn, ToolIn
from dialects_app.shared.additions import own_tools
from dialects_app.shared.fields import refuse
from dialects_app.shared.parsed_request import RequestedTools
from sessions_app.decoding import convert_to
from sessions_app.errors import ValidationFailed
from sessions_app.messages import ToolSpec

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


class _NamedFunction(msgspec.Struct, frozen=True):
    name: str


class _NamedTool(msgspec.Struct, frozen=True):
    type: str
    function: _NamedFunction | None = None


class _AllowedTools(msgspec.Struct, frozen=True):
    mode: str
    tools: Sequence[_NamedTool]


class _Choice(msgspec.Struct, frozen=True):
    type: str
    function: _NamedFunction | None = None
    allowed_tools: _AllowedTools | None = None


def read_tools(body: CompletionIn, named: str | None = None) -> RequestedTools:
    """Return the tools of a request.

    Args:
        body: Its body.
        named: Tools of this server, separated by commas.

    Raises:
        ValidationFailed: A tool or the choice is invalid; ``field`` is its path.
    """
    client = _client_tools(body.tools or ())
    own = own_tools(body.model_name, named)
    choice = body.tool_choice
    if choice is None or choice == "auto":
        return RequestedTools(client=client, own=own, choice="auto")
    if choice == "none":
        return RequestedTools(client=(), own=own, choice="none")
    offered = RequestedTools(client=client, own=own, choice="required")
    if not client and own is not None and not own:
        refuse("tool_choice", "'tool_choice' is only allowed when 'tools' are specified.")
    if choice == "required":
        return offered
    if isinstance(choice, str):
        refuse(
            "tool_choice",
            f"Invalid value: {choice[:40]!r}. Supported values are: 'none', 'auto', 'required' "
            "and an object that names functions.",
        )
    return _chosen(_convert(choice), offered)


def _chosen(choice: _Choice, offered: RequestedTools) -> RequestedTools:
    """Return the tools with a choice given as an object: one function, or allowed tools."""
    if choice.type == "function" and choice.function is not None:
        path, name = "tool_choice.function.name", choice.function.name
        _require_known(name, offered, {tool.name for tool in offered.client}, path)
        return msgspec.structs.replace(offered, choice=[name])
    allowed = choice.allowed_tools
    if choice.type != "allowed_tools" or allowed is None:
        refuse("tool_choice", f"Choices of the type {choice.type[:40]!r} are not taken.")
    path = "tool_choice.allowed_tools"
    if allowed.mode not in {"auto", "required"}:
        refuse(f"{path}.mode", "Supported values are: 'auto' and 'required'.")
    names = _allowed(allowed.tools, offered, f"{path}.tools")
    return RequestedTools(
        client=[tool for tool in offered.client if tool.name in names],
        own=None if offered.own is None else [name for name in offered.own if name in names],
        choice="auto" if allowed.mode == "auto" else [*names],
    )


def _allowed(tools: Sequence[_NamedTool], offered: RequestedTools, path: str) -> dict[str, None]:
    """Return the names of allowed tools, in order; as dictionary keys, for fast lookup."""
    client = {tool.name for tool in offered.client}
    names: dict[str, None] = {}
    for index, tool in enumerate(tools):
        place = f"{path}[{index}]"
        if tool.type != "function" or tool.function is None:
            refuse(f"{place}.type", f"Tools of the type {tool.type[:40]!r} are not taken.")
        _require_known(tool.function.name, offered, client, f"{place}.function.name")
        names[tool.function.name] = None
    return names


def _require_known(name: str, offered: RequestedTools, client: AbstractSet[str], path: str) -> None:
    if name not in client and offered.own is not None and name not in offered.own:
        refuse(path, f"There is no function {name[:100]!r} in 'tools'.")


def _convert(choice: Mapping[str, Any]) -> _Choice:
    try:
        return convert_to(choice, _Choice)
    except msgspec.ValidationError as error:
        raise ValidationFailed(
            f"Invalid value for 'tool_choice': {error}.", field="tool_choice"
        ) from error


def _client_tools(tools: Sequence[ToolIn]) -> Sequence[ToolSpec]:
    specs: dict[str, ToolSpec] = {}
    for index, tool in enumerate(tools):
        path = f"tools[{index}]"
        if tool.type != "function":
            refuse(
                f"{path}.type",
                f"Tools of the type {tool.type[:40]!r} are not taken, only 'function'.",
            )
        if tool.function is None:
            refuse(f"{path}.function", f"Missing required parameter: '{path}.function'.")
        spec = _spec(tool.function)
        if spec.name in specs:
            refuse(f"{path}.function.name", f"Two tools have the name {spec.name!r}.")
        specs[spec.name] = spec
    return tuple(specs.values())


def _spec(function: FunctionIn) -> ToolSpec:
    return ToolSpec(
        name=function.name,
        description=function.description or "",
        parameters=function.parameters or _NO_PARAMETERS,
    )
