"""Reads the arguments of tool calls as models write them. Pure.

What has one meaning only is repaired. What can't be understood is saved as one argument whose name
states the problem; such a call never runs (``fault_of``).
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sessions_app.bounds import MOST_VALUES, has_too_many_values
from sessions_app.finite_numbers import AS_TEXT, finite

MAX_DEPTH = 64
"""Nested objects and lists at most, so that later readers can recurse."""
INVALID_JSON = "INVALID_JSON"
"""The one argument of a call whose arguments are no JSON object; its value is their text."""
NESTED_TOO_DEEPLY = "JSON_NESTED_TOO_DEEPLY"
"""The one argument of a call whose arguments are deeper than ``MAX_DEPTH``; its value is JSON."""
TOO_MANY_VALUES = "JSON_OF_TOO_MANY_VALUES"
"""The one argument of a call whose arguments have more than ``MOST_VALUES``; its value is JSON."""
NO_NAME = "no_name_given"
"""The name of a call for which the model gave arguments and no name."""

_FAULTS = {
    INVALID_JSON: "The arguments were not one JSON object, so the tool was not run. Call it again "
    "with arguments that are one JSON object.",
    NESTED_TOO_DEEPLY: f"The arguments were nested more than {MAX_DEPTH} levels deep, so the tool "
    "was not run. Call it again with simpler arguments.",
    TOO_MANY_VALUES: f"The arguments had more than {MOST_VALUES:,} values, so the tool was not "
    "run. Call it again with fewer.",
}
_MOST_REPEATED = 16
"""So many times may the object of a call be sent in its text."""
_LONGEST_REPAIRED = 256 * 1024
"""Looking for commas to take out holds the interpreter all the time."""
_FENCES = frozenset({"```", "```json"})
_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*[}\]])', re.DOTALL)


def arguments_of(raw: Any) -> Mapping[str, Any]:
    """Return the arguments of a call, or their replacement if they can't be understood.

    Args:
        raw: The arguments as they came: JSON text, a decoded object, or None without any.
    """
    try:
        value = _read(raw) if isinstance(raw, str) else raw
    except _TooManyValues:
        return {TOO_MANY_VALUES: raw}
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return {INVALID_JSON: raw if isinstance(raw, str) else _json(raw)}
    if (fault := _fault_of_shape(value)) is not None:
        return {fault: raw if isinstance(raw, str) else _json(value)}
    return value if isinstance(raw, str) else finite(dict(value))


def fault_of(arguments: Mapping[str, Any]) -> str | None:
    """Return why a call with these arguments must not run, in words for the model; else None."""
    return _FAULTS.get(next(iter(arguments))) if len(arguments) == 1 else None


def _read(text: str) -> Any:
    """Return the object that a text holds, None if it holds nothing; else anything else."""
    text = _without_fence(text)
    if has_too_many_values(text.encode(errors="replace")):
        raise _TooManyValues
    try:
        values = list(_values(text))
    except (ValueError, RecursionError):
        if len(text) > _LONGEST_REPAIRED:
            return text
        try:
            values = list(_values(_STRING_OR_COMMA.sub(r"\1", text)))
        except (ValueError, RecursionError):
            return text
    if len(values) == 1 and isinstance(values[0], str):  # the object, as a string of JSON
        return _read(values[0]) if values[0].lstrip()[:1] == "{" else text
    given = [value for value in values if value not in ({}, None)]
    if any(value != given[0] for value in given):
        return text
    return given[0] if given else ({} if {} in values else None)


def _without_fence(text: str) -> str:
    """Return the inside of a Markdown code block, or the text."""
    first, newline, rest = text.strip().partition("\n")
    is_fenced = newline and first.rstrip() in _FENCES and rest.endswith("```")
    return rest[:-3] if is_fenced else text


def _values(text: str) -> Iterator[Any]:
    """Yield the JSON values of a text, one after the other.

    Raises:
        ValueError: It holds something else, or too many.
    """
    for _ in range(_MOST_REPEATED):
        text = text.lstrip()
        if not text:
            return
        value, end = _DECODER.raw_decode(text)
        yield value
        text = text[end:]
    if text.strip():
        raise ValueError("too many values")


_DECODER = json.JSONDecoder(
    strict=False,  # models write line breaks and tabs into strings as they are
    **AS_TEXT,
)


class _TooManyValues(Exception):
    """A text has more than ``MOST_VALUES``."""


def _fault_of_shape(value: Mapping[str, Any]) -> str | None:
    level: list[Any] = [value]
    count = 1
    for _ in range(MAX_DEPTH):
        count += sum(map(len, level))
        if count > MOST_VALUES:
            return TOO_MANY_VALUES
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, Mapping) else outer)
            if isinstance(inner, Mapping | list)
        ]
        if not level:
            return None
    return NESTED_TOO_DEEPLY


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, UnicodeEncodeError):  # half a character
        return ""
