"""Reads the descriptions that a server gives of itself and its tools, as far as they make sense.

The SDK refuses a whole list for one tool of an odd form. Here each tool is read by itself, and put
into a form that the SDK accepts, or refused with the reason (docs/decisions/0125). Pure.

Importing this module imports the SDK's types.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from tools_app.mcp.limits import MAX_LISTING_BYTES, MAX_TOOLS
from tools_app.mcp.messages import BARE
from tools_app.mcp.remote import RemoteListing, RemoteTool, mapping

RESULT = "mochi-server/result"
"""The key of a result, in the ``_meta`` of the one that the SDK sees."""

_COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
MAX_ICON_CHARS = 32_768
"""The size of an icon, which is an address or an image in Base64."""
_MOST_ICONS = 4
_ICON = re.compile(r"https://|data:image/[a-z+.-]+[;,]", re.IGNORECASE)


def fit_initialization(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is needed of the answer to ``initialize``; servers leave parts of it out."""
    version = result.get("protocolVersion")
    offers = mapping(result.get("capabilities"))
    tools = mapping(offers.get("tools"))
    is_known = version in HANDSHAKE_PROTOCOL_VERSIONS
    instructions = result.get("instructions")
    return {
        "protocolVersion": version if is_known else LATEST_HANDSHAKE_VERSION,
        "capabilities": {
            "tools": {"listChanged": tools.get("listChanged") is True},
            **({"resources": {}} if "resources" in offers else {}),
        },
        "serverInfo": {"name": "server", "version": ""},
        "instructions": instructions if isinstance(instructions, str) else None,
    }


def fit_call(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return an empty result, with the real one unread in ``_meta``."""
    if BARE in result:
        bare = result[BARE]
        result = {"content" if isinstance(bare, str | list) else "structuredContent": bare}
    return {"resultType": "complete", "content": [], "_meta": {RESULT: result}}


def fit_tools(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of tools as the SDK needs it, with the tools and what was refused in ``_meta``.

    Of what is beyond a limit, one more tool is returned, so that the list is seen to be cut.
    """
    listed = result.get("tools", result.get(BARE))
    if not isinstance(listed, list):
        return {"tools": listed}  # which the SDK refuses
    tools, refused, size = [], [], 0
    for raw in listed[: MAX_TOOLS + 1]:
        try:
            tools.append(_tool(mapping(raw)))
            size += len(msgspec.json.encode(tools[-1]))
        except (_RefusedError, RecursionError) as error:
            refused.append((str(mapping(raw).get("name") or ""), str(error)))
        if size > MAX_LISTING_BYTES:
            break
    cursor = result.get("nextCursor")
    more = {"nextCursor": cursor} if isinstance(cursor, str) and cursor else {}
    return {
        **_COMPLETE,
        **more,
        "tools": [{"name": tool.name, "inputSchema": tool.input_schema} for tool in tools],
        # As plain values: the SDK dumps what it has validated.
        "_meta": {RESULT: msgspec.to_builtins(RemoteListing(tools=tools, refused=refused))},
    }


def _fit_unread(key: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda result: {**_COMPLETE, key: [], "_meta": {RESULT: result}}


FITS = {
    "initialize": fit_initialization,
    "tools/list": fit_tools,
    "tools/call": fit_call,
    "prompts/list": _fit_unread("prompts"),
    "prompts/get": _fit_unread("messages"),
    "resources/list": _fit_unread("resources"),
    "resources/read": _fit_unread("contents"),
}
"""Returns, by method, a result as the SDK accepts it."""


class _RefusedError(ValueError):
    """Why a tool can't be offered, as a sentence."""


def _tool(raw: Mapping[str, Any]) -> RemoteTool:
    name, hints = raw.get("name"), mapping(raw.get("annotations"))
    if not isinstance(name, str) or not name:
        raise _RefusedError("It has no name.")
    if mapping(raw.get("execution")).get("taskSupport") == "required":
        raise _RefusedError("It runs only as a task, which is not offered.")
    title, description = (_text(raw.get(key)) for key in ("title", "description"))
    output = raw.get("outputSchema")
    return RemoteTool(
        name=name,
        description=description or title or "",
        input_schema=_arguments(raw.get("inputSchema", raw.get("input_schema"))),
        read_only=hints.get("readOnlyHint") is True,
        destructive=hints.get("destructiveHint") is not False,
        title=title,
        icons=_icons(raw.get("icons")),
        output_schema=output if isinstance(output, Mapping) else None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _icons(raw: object) -> list[dict[str, Any]]:
    """Return the first icons that a page can show without asking an unsafe address."""
    icons = [icon for icon in map(mapping, raw if isinstance(raw, list) else ()) if _is_safe(icon)]
    return [
        {"src": icon["src"], "mimeType": icon.get("mimeType"), "sizes": icon.get("sizes", [])}
        for icon in icons[:_MOST_ICONS]
    ]


def _is_safe(icon: Mapping[str, Any]) -> bool:
    source, kind, sizes = icon.get("src"), icon.get("mimeType", ""), icon.get("sizes", [])
    return (
        isinstance(source, str)
        and len(source) <= MAX_ICON_CHARS
        and source.isprintable()
        and _ICON.match(source) is not None
        and isinstance(kind, str)
        and isinstance(sizes, list)
        and all(isinstance(size, str) for size in sizes)
    )


def _arguments(raw: object) -> dict[str, Any]:
    """Return a schema of arguments; no schema, or an empty one, means no arguments.

    A well-formed schema is returned unchanged, because sessions keep its digest.
    """
    if not raw or raw is True:  # also an empty list, which is PHP's empty object
        return {"type": "object", "properties": {}}
    if not isinstance(raw, Mapping):
        raise _RefusedError("Its input schema is no object.")
    kind = raw.get("type") or "object"
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise _RefusedError("Its input schema describes no object.")
    schema = {**_schema(raw), "type": "object"}
    if not isinstance(schema.get("$schema", ""), str):
        del schema["$schema"]
    return schema


def _schema(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without a ``required`` that is no list of names, as in older drafts."""
    schema = dict(raw)
    for key in ("items", "additionalProperties"):
        if isinstance(raw.get(key), Mapping):
            schema[key] = _schema(raw[key])
    if "properties" in raw:
        schema["properties"] = {
            name: value if isinstance(value, bool) else _schema(_named(value, f"property {name!r}"))
            for name, value in _named(raw["properties"], "part 'properties'").items()
        }
    required = raw.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        del schema["required"]
    return schema


def _named(value: object, part: str) -> Mapping[str, Any]:
    """Return a part of a schema that is an object; an empty list (PHP) or nothing is one."""
    if value and not isinstance(value, Mapping):
        raise _RefusedError(f"The {part[:100]} of its input schema is no object.")
    return mapping(value)
