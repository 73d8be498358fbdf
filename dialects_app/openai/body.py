"""Reads the bodies of requests as msgspec structs.

Fields that a struct does not have are ignored: clients send dozens that mean nothing here. A field
that clients may send as null needs ``| None`` in its type.
"""

import asyncio
import re
from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest

from mochi_project.http.strict_json import parse_json
from sessions_app.errors import ValidationFailed

LARGE_BYTES = 64 * 1024
"""From this size on, a body is read in a thread: whole histories come with each request."""

Body = TypeVar("Body")

_PLACE = re.compile(r" - at (?:`(?P<what>key|key of)` in )?`\$(?P<path>[^`]*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<field>[^`]+)`")


async def read_body(request: HttpRequest, kind: type[Body]) -> Body:
    """Return a request's body.

    Raises:
        MalformedBodyError: It is not JSON that means one thing only.
        ValidationFailed: Something in it has the wrong shape or value; ``field`` is its path, like
            ``messages[2].content``.
    """
    data = request.body
    if len(data) >= LARGE_BYTES:
        return await asyncio.to_thread(decode_body, data, kind)
    return decode_body(data, kind)


def decode_body(data: bytes, kind: type[Body]) -> Body:
    """Return a body's value. Raises as ``read_body`` does."""
    return convert_body(parse_json(data), kind)


def convert_body(value: Any, kind: type[Body]) -> Body:
    """Return parsed JSON as a struct. Raises ValidationFailed as ``read_body`` does."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        first = error
    try:
        return msgspec.convert(_with_whole_numbers(value), kind)
    except msgspec.ValidationError:
        raise _refusal(str(first)) from first


def _with_whole_numbers(value: Any) -> Any:
    """Return JSON with 3.0 as 3: they are the same number there, and here only 3 is an int."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [_with_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_whole_numbers(item) for key, item in value.items()}
    return value


def _refusal(text: str) -> ValidationFailed:
    """Return the error for msgspec's words, which end with the place: ``- at `$.a[0]```."""
    place = _PLACE.search(text)
    words = text[: place.start()] if place else text
    path = place["path"].removeprefix(".") if place else ""
    missing = _MISSING.match(words)
    if missing:
        field = f"{path}.{missing['field']}" if path else missing["field"]
        return ValidationFailed(f"Missing required parameter: '{field}'.", field=field)
    field = path or "body"
    return ValidationFailed(f"Invalid value for '{field}': {words}.", field=field)
