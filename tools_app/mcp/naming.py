"""Converts a server's descriptions to tools with unique names. Pure.

A server's names are not trusted: they get its name as a prefix, so that it can't replace a function
or another server's tool, and ambiguous names are refused. Its annotations of effects count only if
``mcp.json`` marks the server as trusted (docs/decisions/0034).
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sessions_app.messages import ToolSpec
from tools_app.digests import digest_of
from tools_app.mcp.config import SEPARATOR
from tools_app.mcp.remote import RemoteTool
from tools_app.toolset import InvalidTool, Tool

MAX_NAME_CHARS = 64
"""The length of tool names that every provider accepts."""
MAX_REMOTE_NAME_CHARS = 128
"""The length of tool names that the protocol recommends."""
MAX_DESCRIPTION_CHARS = 16_384

_ODD = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS = 8
_ROOT_CHOICES = frozenset({"allOf", "anyOf", "oneOf", "enum", "not"})
_DEFINITION_SLASHES = 2  # as in #/$defs/Name
_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}


class NamedTools(msgspec.Struct, frozen=True, kw_only=True):
    """A server's tools by our names, the server's own names, and what was refused."""

    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    remote_names: Mapping[str, str] = msgspec.field(default_factory=dict)
    invalid: Sequence[InvalidTool] = ()


def name_tools(server: str, remote: Sequence[RemoteTool], *, trusted: bool = False) -> NamedTools:
    """Name each tool of the server, or refuse it with the reason.

    Args:
        server: The server's name in ``mcp.json``.
        remote: Its tools, as it describes them.
        trusted: Whether its annotations of effects count.
    """
    tools: dict[str, Tool] = {}
    remote_names: dict[str, str] = {}
    invalid: list[InvalidTool] = []
    # Names that need no change come first: "a.b" can't take the place of "a_b".
    for tool in sorted(remote, key=lambda tool: bool(_ODD.search(tool.name))):
        name = f"{server}{SEPARATOR}{_ODD.sub('_', tool.name)}"
        reason = _refusal(tool)
        if reason is None and len(name) > MAX_NAME_CHARS:
            shortened = _shortened(server, tool.name)
            reason = None if shortened else "Its name is too long behind the server's."
            name = shortened or name
        if reason is None and name in tools:
            reason = "Another tool of this server has the same name, as far as it can be kept."
        if reason is not None:
            invalid.append(refused_tool(server, name, reason))
            continue
        tools[name] = _tool(name, server, tool, trusted=trusted)
        remote_names[name] = tool.name
    in_order = {tool.name: index for index, tool in reversed(list(enumerate(remote)))}
    ordered = sorted(tools, key=lambda name: in_order[remote_names[name]])
    return NamedTools(
        tools={name: tools[name] for name in ordered}, remote_names=remote_names, invalid=invalid
    )


def refused_tool(server: str, name: str, reason: str) -> InvalidTool:
    """Return the entry of a tool that can't be offered."""
    shown = name[:MAX_NAME_CHARS]
    return InvalidTool(name=shown, file=f"mcp.json: {server}", reason=reason)


def server_of(tool_name: str) -> str | None:
    """Return the server that a tool name belongs to; None if it is not an MCP tool's."""
    server, separator, rest = tool_name.partition(SEPARATOR)
    return server if separator and server and rest else None


def _refusal(tool: RemoteTool) -> str | None:
    if len(tool.name) > MAX_REMOTE_NAME_CHARS:
        return f"Its name is longer than {MAX_REMOTE_NAME_CHARS} characters."
    if not tool.name.isprintable():
        return "Its name holds control characters."
    return None


def _shortened(server: str, remote_name: str) -> str | None:
    """Return the beginning of a long name with a digest; None if that is too long as well."""
    name = f"{server}{SEPARATOR}{_ODD.sub('_', remote_name)}"
    kept = MAX_NAME_CHARS - _DIGEST_CHARS - 1
    if len(server) + len(SEPARATOR) >= kept:
        return None
    digest = hashlib.sha256(remote_name.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{name[:kept]}_{digest}"


def _tool(name: str, server: str, tool: RemoteTool, *, trusted: bool) -> Tool:
    schema = {"type": "object", **tool.input_schema}
    flat = _without_choices(schema)
    return Tool(
        spec=ToolSpec(
            name=name,
            description=tool.description[:MAX_DESCRIPTION_CHARS],
            parameters=flat,
        ),
        parameters=dict(_parameters(flat.get("properties"))),
        groups=(server,),
        destructive=not trusted or (tool.destructive and not tool.read_only),
        server=server,
        digest=digest_of(f"{server}{SEPARATOR}{tool.name}", tool.description, schema),
        read_only=trusted and tool.read_only,
    )


def _without_choices(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without choices at its root, for which vendors refuse the whole request.

    A property may then be as in any of the choices, and is required if all of them require it.
    """
    if not _ROOT_CHOICES & schema.keys():
        return schema
    flat = {key: value for key, value in schema.items() if key not in _ROOT_CHOICES}
    properties = {name: [part] for name, part in _mapping(flat.get("properties")).items()}
    required = _names(flat)
    for key in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(key)
        branches = [_resolved(part, schema) for part in parts] if isinstance(parts, list) else []
        for branch in branches:
            for name, described in _mapping(branch.get("properties")).items():
                known = properties.setdefault(name, [])
                if described not in known:
                    known.append(described)
        if branches:
            join = set.union if key == "allOf" else set.intersection
            required |= join(*map(_names, branches))
    flat["properties"] = {
        name: parts[0] if len(parts) == 1 else {"anyOf": parts}
        for name, parts in properties.items()
    }
    return {**flat, "required": sorted(required)}


def _resolved(part: object, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a branch, or the definition that it refers to."""
    reference = _mapping(part).get("$ref")
    if isinstance(reference, str) and reference.count("/") == _DEFINITION_SLASHES:
        _, definitions, name = reference.split("/")
        return _mapping(_mapping(schema.get(definitions)).get(name))
    return _mapping(part)


def _names(schema: Mapping[str, Any]) -> set[str]:
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    return {name for name in names if isinstance(name, str)}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _parameters(properties: object) -> Iterator[tuple[str, dict[str, str]]]:
    for name, schema in _mapping(properties).items():
        described = _mapping(schema)
        text = described.get("description")
        yield (
            str(name),
            {
                "type": _type(described),
                "description": text if isinstance(text, str) else "",
            },
        )


def _type(schema: Mapping[str, Any]) -> str:
    said = schema.get("type")
    if isinstance(said, str):
        return _TYPES.get(said, "Any")
    choices = said if isinstance(said, list) else _choices(schema)
    known = [_TYPES[choice] for choice in choices if isinstance(choice, str) and choice in _TYPES]
    return " | ".join(dict.fromkeys(known)) or "Any"


def _choices(schema: Mapping[str, Any]) -> list[object]:
    options = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(options, list):
        return []
    return [option.get("type") for option in options if isinstance(option, Mapping)]
