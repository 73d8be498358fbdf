"""Converts a server's descriptions to tools with unique names. Pure.

A server's names are not trusted: they get its name as a prefix, so that it can't replace a function
or another server's tool, and ambiguous names are refused. Its annotations of effects count only if
``mcp.json`` marks the server as trusted (docs/decisions/0034).
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sessions_app.messages import ToolSpec
from tools_app.digests import digest_of
from tools_app.mcp.config import SEPARATOR, ServerOptions
from tools_app.mcp.limits import MAX_LISTING_BYTES, MAX_TOOLS
from tools_app.mcp.remote import RemoteListing, RemoteTool, mapping
from tools_app.toolset import InvalidTool, Tool

MAX_NAME_CHARS = 64
"""The length of tool names that every provider accepts."""
MAX_REMOTE_NAME_CHARS = 128
"""The length of tool names that the protocol recommends."""
MAX_DESCRIPTION_CHARS = 16_384
MAX_INSTRUCTIONS_BYTES = 2048
"""The size of what a server tells models, beside its tools (docs/decisions/0196)."""
MAX_TITLE_BYTES = 256

_CUT = (
    f"Only its first {MAX_TOOLS} tools, and no more than {MAX_LISTING_BYTES >> 20} MiB of them, "
    "are listed."
)
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS = 8
_MERGED = ("allOf", "anyOf", "oneOf")
_ROOT_CHOICES = frozenset({*_MERGED, "enum", "not"})
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


class ReadResource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of the tool that reads a resource."""

    uri: Annotated[str, Meta(description="the address, exactly as a result of the server names it")]


RESOURCE_READER = ToolSpec(
    name="read_resource",
    description="Read a resource of this server that a result in this conversation links to.",
    parameters=msgspec.json.schema_components([ReadResource])[1]["ReadResource"],
)
RESOURCE_LIST = ToolSpec(
    name="list_resources",
    description="List the resources of this server. They can be read from then on.",
    parameters={"type": "object", "properties": {}},
)


class NamedTools(msgspec.Struct, frozen=True, kw_only=True):
    """A server's tools by our names, the server's own names, and what was refused."""

    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    remote_names: Mapping[str, str] = msgspec.field(default_factory=dict)
    invalid: Sequence[InvalidTool] = ()

    @property
    def group(self) -> Sequence[str]:
        """The names of the tools that are offered without a link to a resource."""
        return [name for name, tool in self.tools.items() if not tool.is_linked]


NO_TOOLS = NamedTools()


def name_tools(server: str, listing: RemoteListing, options: ServerOptions) -> NamedTools:
    """Name each tool of a server, or refuse it with the reason, and add those of ours.

    Args:
        server: The server's name in ``mcp.json``.
        listing: Its tools, as it describes them.
        options: What its entry says of it.
    """
    trusted, told = options.trusted, listing.instructions if options.instructions else None
    instructions = _clean(told or "", MAX_INSTRUCTIONS_BYTES) or None
    tools: dict[str, Tool] = {}
    remote_names: dict[str, str] = {}
    refused: list[tuple[str, str]] = []
    odd = {tool.name for tool in listing.tools if _ODD.search(tool.name)}
    plain = {_name(server, tool.name) for tool in listing.tools if tool.name not in odd}
    for tool in listing.tools:
        name, reason = _name(server, tool.name), _refusal(tool)
        if name is None:
            reason = reason or "Its name is too long behind the server's."
        elif name in tools or (tool.name in odd and name in plain):  # "a.b" is not "a_b"
            reason = "Another tool of this server has the same name, as far as it can be kept."
        if name is None or reason is not None:
            refused.append((f"{server}{SEPARATOR}{_ODD.sub('_', tool.name)}", reason or ""))
            continue
        tools[name] = _tool(name, server, tool, trusted=trusted, instructions=instructions)
        remote_names[name] = tool.name
    refused += [(f"{server}{SEPARATOR}{name}", reason) for name, reason in listing.refused]
    refused += [(server, _CUT)] if listing.cut else []
    if listing.has_resources:
        for own in _resource_tools(server, trusted=trusted, listed=options.resources):
            tools.setdefault(own.name, own)
    file = f"mcp.json: {server}"
    return NamedTools(
        tools=tools,
        remote_names=remote_names,
        invalid=[InvalidTool(name=n[:MAX_NAME_CHARS], file=file, reason=why) for n, why in refused],
    )


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


def _name(server: str, remote_name: str) -> str | None:
    """Return our name; a long one with a digest for its end; None if that is too long as well."""
    name = f"{server}{SEPARATOR}{_ODD.sub('_', remote_name)}"
    kept = MAX_NAME_CHARS - _DIGEST_CHARS - 1
    if len(name) <= MAX_NAME_CHARS:
        return name
    if len(server) + len(SEPARATOR) >= kept:
        return None
    digest = hashlib.sha256(remote_name.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{name[:kept]}_{digest}"


def _clean(text: str, most_bytes: int) -> str:
    """Return the beginning of a text, without what nobody sees, such as controls."""
    seen = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    return seen.encode(errors="replace")[:most_bytes].decode(errors="ignore").strip()


def _tool(
    name: str, server: str, tool: RemoteTool, *, trusted: bool, instructions: str | None
) -> Tool:
    schema = {"type": "object", **tool.input_schema}
    flat = _without_choices(schema)
    return Tool(
        spec=ToolSpec(
            name=name, description=tool.description[:MAX_DESCRIPTION_CHARS], parameters=flat
        ),
        parameters={
            str(name): _parameter(mapping(part))
            for name, part in mapping(flat.get("properties")).items()
        },
        groups=(server,),
        destructive=not trusted or (tool.destructive and not tool.read_only),
        server=server,
        digest=digest_of(f"{server}{SEPARATOR}{tool.name}", tool.description, schema, instructions),
        read_only=trusted and tool.read_only,
        title=_clean(tool.title or "", MAX_TITLE_BYTES) or None,
        icons=tool.icons,
        instructions=instructions,
    )


def _resource_tools(server: str, *, trusted: bool, listed: bool) -> Iterator[Tool]:
    """Yield the tools that read a server's resources, as far as their names are not too long."""
    for spec in (RESOURCE_READER, RESOURCE_LIST) if listed else (RESOURCE_READER,):
        if (name := _name(server, spec.name)) is not None:
            parts = spec.parameters["properties"].items()
            yield Tool(
                spec=msgspec.structs.replace(spec, name=name),
                parameters={key: _parameter(part) for key, part in parts},
                groups=(server,),
                destructive=not trusted,
                server=server,
                read_only=trusted,
                resources="list" if spec is RESOURCE_LIST else "read",
                is_linked=not listed,
            )


def _without_choices(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without choices at its root, for which vendors refuse the whole request.

    A property may then be as in any of the choices, and is required if all of them require it.
    """
    if not _ROOT_CHOICES & schema.keys():
        return schema
    flat = {key: value for key, value in schema.items() if key not in _ROOT_CHOICES}
    parts = [[_resolved(part, schema) for part in _list(schema.get(key))] for key in _MERGED]
    properties: dict[str, list[Any]] = {}
    for part in (flat, *chain(*parts)):
        for name, described in mapping(part.get("properties")).items():
            properties.setdefault(name, [])
            properties[name] += [described] if described not in properties[name] else []
    every, *choices = [[_names(part) for part in each] for each in parts]
    required = _names(flat).union(*every, *(set.intersection(*each) for each in choices if each))
    flat["properties"] = {
        name: each[0] if len(each) == 1 else {"anyOf": each} for name, each in properties.items()
    }
    return {**flat, "required": sorted(required)}


def _resolved(part: object, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a branch, or the definition that it refers to."""
    reference = mapping(part).get("$ref")
    if isinstance(reference, str) and reference.count("/") == _DEFINITION_SLASHES:
        _, definitions, name = reference.split("/")
        return mapping(mapping(schema.get(definitions)).get(name))
    return mapping(part)


def _names(schema: Mapping[str, Any]) -> set[str]:
    return {name for name in _list(schema.get("required")) if isinstance(name, str)}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _parameter(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return a parameter's type in Python's notation, and its description."""
    types, text = schema.get("type"), schema.get("description")
    if not isinstance(types, str | list):
        options = _list(schema.get("anyOf", schema.get("oneOf")))
        types = [mapping(option).get("type") for option in options]
    types = [types] if isinstance(types, str) else types
    known = [_TYPES[each] for each in types if isinstance(each, str) and each in _TYPES]
    return {
        "type": " | ".join(dict.fromkeys(known)) or "Any",
        "description": text if isinstance(text, str) else "",
    }
