"""Reads the descriptions that a server gives of itself and its tools, as far as they make sense.

The SDK refuses a whole list for one tool of an odd form. Here each tool is read by itself, and put
into a form that the SDK accepts, or refused with the reason (docs/decisions/0125). Pure.

Importing this module imports the SDK's types.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from tools_app.mcp.limits import MAX_LISTING_BYTES, MAX_TOOLS
from tools_app.mcp.messages import BARE

REFUSED = "mochi-server/refused"
"""The key of what was refused, in the ``_meta`` of a list of tools: names with reasons."""
CUT = "mochi-server/cut"
"""The key of whether the list is longer than is read, in the ``_meta`` of a list of tools."""
RESULT = "mochi-server/result"
"""The key of a call's result, in the ``_meta`` of the empty one that the SDK sees."""

_COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_HINTS = ("readOnlyHint", "destructiveHint")
_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})


def fit_initialization(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is needed of the answer to ``initialize``; servers leave parts of it out."""
    version = result.get("protocolVersion")
    tools = _object(_object(result.get("capabilities")).get("tools"))
    is_known = version in HANDSHAKE_PROTOCOL_VERSIONS
    return {
        "protocolVersion": version if is_known else LATEST_HANDSHAKE_VERSION,
        "capabilities": {"tools": {"listChanged": tools.get("listChanged") is True}},
        "serverInfo": {"name": "server", "version": ""},
    }


def fit_call(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return an empty result, with the real one unread in ``_meta``."""
    if BARE in result:
        bare = result[BARE]
        result = {"content" if isinstance(bare, str | list) else "structuredContent": bare}
    return {"resultType": "complete", "content": [], "_meta": {RESULT: result}}


def fit_tools(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of tools of which every one is well-formed, and what was refused."""
    listed = result.get("tools", result.get(BARE))
    if not isinstance(listed, list):
        return {"tools": listed}  # which the SDK refuses
    tools, refused, size = [], [], 0
    for raw in listed[:MAX_TOOLS]:
        name = _object(raw).get("name")
        try:
            size += len(msgspec.json.encode(_input_schema(_object(raw))))
            if size > MAX_LISTING_BYTES:
                break
            tools.append(_tool(raw))
        except (_RefusedError, RecursionError) as error:
            refused.append((name if isinstance(name, str) else "", str(error)))
    cursor = result.get("nextCursor")
    more = {"nextCursor": cursor} if isinstance(cursor, str) and cursor else {}
    meta = {REFUSED: refused, CUT: size > MAX_LISTING_BYTES or len(listed) > MAX_TOOLS}
    return {**_COMPLETE, **more, "tools": tools, "_meta": meta}


class _RefusedError(ValueError):
    """Why a tool can't be offered, as a sentence."""


def _tool(raw: object) -> dict[str, Any]:
    tool = _object(raw)
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise _RefusedError("It has no name.")
    texts = {key: tool[key] for key in ("title", "description") if isinstance(tool.get(key), str)}
    hints = _object(tool.get("annotations"))
    return {
        "name": name,
        **texts,
        "inputSchema": _schema(_input_schema(tool)),
        "annotations": {key: hints[key] for key in _HINTS if isinstance(hints.get(key), bool)},
    }


def _input_schema(tool: Mapping[str, Any]) -> object:
    return tool.get("inputSchema", tool.get("input_schema"))


def _schema(raw: object) -> dict[str, Any]:
    """Return a schema of arguments; no schema, or an empty one, means no arguments.

    A well-formed schema is returned unchanged, because sessions keep its digest.
    """
    if not raw or raw is True:  # also an empty list, which is PHP's empty object
        return {"type": "object", "properties": {}}
    if not isinstance(raw, Mapping):
        raise _RefusedError("Its input schema is no object.")
    kind = raw.get("type") or "object"
    if str(kind).lower() != "object" and "object" not in _items(kind):
        raise _RefusedError("Its input schema describes no object.")
    schema = {**_mended(raw), "type": "object"}
    if not isinstance(raw.get("$schema", ""), str):
        del schema["$schema"]
    return schema


def _mended(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in which the properties of objects, and what they require, have types."""
    schema = {**raw}
    for key in ("items", "additionalProperties"):
        if isinstance(raw.get(key), Mapping):
            schema[key] = _mended(raw[key])
    properties, required = raw.get("properties", {}), raw.get("required", [])
    if properties and not isinstance(properties, Mapping):
        raise _RefusedError("The 'properties' of its input schema are no object.")
    described = dict(properties or {})
    names = [required] if isinstance(required, str) else list(_items(required))
    if isinstance(described.get("required"), list):  # it slipped one level down
        names += described.pop("required")
    for name, value in described.items():
        if _object(value).get("required") is True:  # as in the third draft of JSON Schema
            names.append(name)
        described[name] = _property(name, value)
    if "properties" in raw:
        schema["properties"] = described
    schema["required"] = [name for name in names if isinstance(name, str)]
    if not names and not isinstance(raw.get("required"), list):
        del schema["required"]
    return schema


def _property(name: str, value: object) -> dict[str, Any] | bool:
    if isinstance(value, Mapping):
        return _mended(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _TYPES:
        return {"type": value}
    if value:
        raise _RefusedError(f"The property {name[:100]!r} of its input schema is no object.")
    return {}


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []
