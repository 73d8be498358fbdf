"""Reads typed fields from the JSON objects of a session's file. Pure."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_KINDS: Mapping[type, str] = {
    str: "text",
    int: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}

Raw = dict[str, Any]


class Malformed(Exception):
    """The file is no session; the message says why, as a phrase that fits in brackets."""


def take(raw: Raw, key: str, kind: type, where: str) -> Any:
    """Remove a required value from ``raw`` and return it; what stays in the end is ``extra``."""
    value = raw.pop(key, None)
    if not isinstance(value, kind):
        found = "missing" if value is None else f"not {_KINDS[kind]}"
        raise Malformed(f"{_place(where, key)} is {found}")
    return value


def take_optional(raw: Raw, key: str, kind: type, where: str, default: Any = None) -> Any:
    """Remove a value that may be missing, or null, from ``raw`` and return it."""
    value = raw.pop(key, None)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Malformed(f"{_place(where, key)} is not {_KINDS[kind]}")
    return value


def take_names(raw: Raw, key: str, where: str) -> tuple[str, ...]:
    """Remove a list of texts from ``raw`` and return it; a missing one is empty."""
    names = take_optional(raw, key, list, where, [])
    if not all(isinstance(name, str) for name in names):
        raise Malformed(f"{_place(where, key)} holds something that is not text")
    return tuple(names)


def stable_id(*parts: object) -> str:
    """Return ten hex digits, the same for the same parts."""
    return hashlib.sha256(":".join(map(str, parts)).encode()).hexdigest()[:10]


def utc(timestamp: str) -> str:
    """Return a time as UTC; naive ones are local time, and what is no time stays as it is."""
    if len(timestamp) == 32 and timestamp.endswith("+00:00"):
        return timestamp
    try:
        moment = datetime.fromisoformat(timestamp).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return timestamp
    return moment.isoformat(timespec="microseconds")


def _place(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
