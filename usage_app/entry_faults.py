"""Explains what is wrong with an entry of a JSON file that a person wrote, and what is allowed."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Literal, get_args, get_origin

import msgspec

from sessions_app.decoding import convert_to

_LONGEST_SHOWN = 50
_KINDS = {Decimal: "a number", int: "a whole number", str: "a text"}


def fault_in(entry: Any, kind: type[msgspec.Struct]) -> str | None:
    """Return what keeps an entry from being of a type, as part of a sentence; None if nothing does.

    Args:
        entry: The parsed JSON.
        kind: The type, without fields that have another name in JSON.
    """
    if not isinstance(entry, dict):
        return f"it is an object (it is {_quoted(entry)})"
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for name in entry:
        if name not in fields:
            return f"there is no `{name[:_LONGEST_SHOWN]}`; fields are {_joined(fields, 'and')}"
    for name, field in fields.items():
        if name not in entry:
            if field.required:
                return f"`{name}` is missing"
        elif (fault := _fault_of_value(name, entry[name], field.type)) is not None:
            return fault
    return None


def _fault_of_value(name: str, value: Any, kind: Any) -> str | None:
    try:
        convert_to(value, kind)
    except msgspec.ValidationError as error:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            inner = fault_in(value, kind)
            return f"`{name}`: {inner or error}"
        if get_origin(kind) is Literal:
            allowed = _joined(get_args(kind), "or")
        else:
            names = [words for each, words in _KINDS.items() if each in (kind, *get_args(kind))]
            allowed = names[0] if names else f"something else: {error}"
        return f"`{name}` is {allowed} (it is {_quoted(value)})"
    return None


def _joined(words: Iterable[str], last_by: str) -> str:
    *first, last = (f"`{word}`" for word in words)
    return f"{', '.join(first)} {last_by} {last}" if first else last


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
