"""Reads values of unknown JSON as the expected type, or as empty. Pure."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from sessions_app.attachments.base64_text import InvalidBase64, begin_of_base64, decode_base64

_MILLISECONDS_FROM = 1e11
"""The value from which on a time is in milliseconds: as seconds it would be the year 5138."""


def as_object(value: object) -> Mapping[str, Any]:
    """Return a JSON object, or an empty one for other types."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> Sequence[Any]:
    """Return a JSON array, or an empty one for other types."""
    return value if isinstance(value, list) else ()


def as_text(value: object) -> str:
    """Return a string, or an empty one for other types."""
    return value if isinstance(value, str) else ""


def objects(value: object) -> Sequence[Mapping[str, Any]]:
    """Return those elements of a JSON array that are objects."""
    return [each for each in as_list(value) if isinstance(each, dict)]


def first_text(*values: object) -> str:
    """Return the first text that is not blank; an empty one if there is none."""
    return next((each for each in values if isinstance(each, str) and each.strip()), "")


def joined(*texts: str, between: str = "\n\n") -> str:
    """Join the texts that are not blank."""
    return between.join(text for text in texts if text.strip())


def text_of(content: object) -> str:
    """Return the text of a message, in whichever form: a string, an object, or a list."""
    if isinstance(content, list):
        return joined(*(text_of(each) for each in content if not isinstance(each, list)))
    if isinstance(content, dict):
        inner = content.get("text")
        return as_text(inner) or as_text(as_object(inner).get("value"))
    return as_text(content)


def bytes_of_url(url: str) -> bytes | None:
    """Return the bytes in a data URL; None for other URLs, and for broken ones."""
    if not url.startswith("data:"):
        return None
    try:
        return b"".join(decode_base64(url, begin=begin_of_base64(url)))
    except InvalidBase64:
        return None


def as_time(value: object) -> str | None:
    """Convert a time to UTC, ISO 8601 with microseconds.

    Args:
        value: Seconds or milliseconds since 1970, or ISO 8601; None is returned for anything else.
    """
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            seconds = value / 1000 if value > _MILLISECONDS_FROM else float(value)
            if not math.isfinite(seconds):
                return None
            moment = datetime.fromtimestamp(seconds, UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="microseconds")


def as_arguments(value: object) -> Mapping[str, Any]:
    """Return the arguments of a tool call; text that is not a JSON object becomes ``input``."""
    if isinstance(value, dict):
        return value
    text = as_text(value)
    if not text.strip():
        return {}
    try:
        parsed = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {"input": text}
    return parsed if isinstance(parsed, dict) else {"input": text}
