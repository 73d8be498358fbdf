"""Replaces invalid arguments of a tool call with one argument that its tool refuses. Pure.

Invalid arguments are saved as one argument whose name states the problem, so the tool's refusal
tells the model.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

MAX_DEPTH = 64
"""Nested objects and lists at most, so that later readers can recurse."""
INVALID_JSON = "INVALID_JSON"
"""The one argument of a call whose arguments are no JSON object; its value is their text."""
NESTED_TOO_DEEPLY = "JSON_NESTED_TOO_DEEPLY"
"""The one argument of a call whose arguments are deeper than ``MAX_DEPTH``; its value is JSON."""


def arguments_of(value: Any, text: str | None = None) -> Mapping[str, Any]:
    """Return the arguments of a call, or their replacement if they are invalid.

    Args:
        value: The decoded arguments; not an object if decoding failed.
        text: The arguments as the model wrote them; None if the provider decodes them.
    """
    if not isinstance(value, dict):
        return {INVALID_JSON: text or ""}
    if _is_too_deep(value):
        return {NESTED_TOO_DEEPLY: _json(value) if text is None else text}
    return value


def _is_too_deep(value: dict[str, Any]) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _json(value: dict[str, Any]) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, UnicodeEncodeError):  # half a character
        return ""
