"""Reads JSON values of other types than they should have, as some servers send them. Pure."""

import json
from collections.abc import Mapping
from typing import Any

_HOLDERS = ("text", "content", "thinking", "reasoning", "summary")


def text_of(value: Any) -> str:
    """Return a value as text: of numbers and the like their JSON, of parts what they hold."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "".join(map(text_of, value))
    if isinstance(value, dict):
        if (held := next((value[name] for name in _HOLDERS if value.get(name)), None)) is not None:
            return text_of(held)
        # A part without text, such as a signature, has nothing to show.
        return "" if value.keys() & {"type", "data", *_HOLDERS} else compact_json(value)
    return compact_json(value)


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list, or the one that stands in its place."""
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


def call_of(item: Mapping[str, Any]) -> tuple[str, str, Any]:
    """Return the id, the name and the arguments of a tool call."""
    function = item.get("function")
    told = function if isinstance(function, dict) else item
    return text_of(item.get("id")), text_of(told.get("name")), told.get("arguments")


def number_of(value: Any) -> int | float | None:
    """Return a count, also one that is text or has a fraction; None if it is none."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:20])
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < 2**53:
        return None
    return int(value) if value == int(value) else value


def compact_json(value: Any) -> str:
    """Return JSON without spaces, in ASCII."""
    return json.dumps(value, separators=(",", ":"))
