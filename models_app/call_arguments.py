"""Arguments of a call that nobody can take, made into some that a tool refuses. Pure.

A call enters the conversation whatever the model wrote: its tool then refuses the one argument that
is left, by a name that says why, and the model is told.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

MAX_DEPTH = 64
"""How many objects and lists may be within one another. Whatever reads them later can recurse."""
INVALID_JSON = "INVALID_JSON"
"""The one argument of a call whose arguments are no JSON object; its value is their text."""
NESTED_TOO_DEEPLY = "JSON_NESTED_TOO_DEEPLY"
"""The one argument of a call whose arguments are deeper than ``MAX_DEPTH``; its value is JSON."""


def arguments_of(value: Any, text: str | None = None) -> Mapping[str, Any]:
    """Return the arguments of a call as they go on.

    Args:
        value: The decoded arguments; anything but an object when they could not be decoded.
        text: The arguments as the model wrote them; None where the provider decodes them.
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
