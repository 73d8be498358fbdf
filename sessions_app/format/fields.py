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
    """The file is not a valid session; the message is a phrase without a full stop."""


def take(raw: Raw, key: str, kind: type, where: str) -> Any:
    """Pop a required value from ``raw``; keys that remain in the end become ``extra``."""
    value = raw.pop(key, None)
    if not isinstance(value, kind):
        found = "missing" if value is None else f"not {_KINDS[kind]}"
        raise Malformed(f"{_place(where, key)} is {found}")
    return value


def take_optional(raw: Raw, key: str, kind: type, where: str, default: Any = None) -> Any:
    """Pop a value that may be missing or null from ``raw``."""
    value = raw.pop(key, None)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Malformed(f"{_place(where, key)} is not {_KINDS[kind]}")
    return value


def take_names(raw: Raw, key: str, where: str) -> tuple[str, ...]:
    """Pop a list of strings from ``raw``; return an empty one if it is missing."""
    names = take_optional(raw, key, list, where, [])
    if not all(isinstance(name, str) for name in names):
        raise Malformed(f"{_place(where, key)} holds something that is not text")
    return tuple(names)


def stable_id(*parts: object) -> str:
    """Return ten hex digits derived deterministically from the parts."""
    return hashlib.sha256(":".join(map(str, parts)).encode()).hexdigest()[:10]


def utc(timestamp: str) -> str:
    """Convert a timestamp to UTC; naive ones are local time, invalid ones stay unchanged."""
    if len(timestamp) == 32 and timestamp.endswith("+00:00"):
        return timestamp
    try:
        moment = datetime.fromisoformat(timestamp).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return timestamp
    return moment.isoformat(timespec="microseconds")


def _place(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
