"""Reads the bodies of requests as msgspec structs.

Unknown fields are ignored, because clients send dozens of them; only structs with
``forbid_unknown_fields`` refuse them. A field that clients may send as null needs ``| None``.
"""

import asyncio
import re
from io import BytesIO
from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest

from mochi_project.http.strict_json import parse_json
from mochi_project.memory.large_bodies import leave_large_body
from sessions_app.bounds import MOST_HISTORY_VALUES
from sessions_app.decoding import convert_to
from sessions_app.errors import ValidationFailed

LARGE_BYTES = 64 * 1024
"""From this size on, a body is read in a thread: whole histories come with each request."""

Body = TypeVar("Body")

_PLACE = re.compile(r" - at (?:`(?P<what>key|key of)` in )?`\$(?P<path>[^`]*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<field>[^`]+)`")


async def read_body(request: HttpRequest, kind: type[Body]) -> Body:
    """Return a request's body.

    Raises:
        MalformedBodyError: It is not valid, unambiguous JSON.
        ValidationFailed: A value has the wrong type or is invalid; ``field`` is its path, like
            ``messages[2].content``.
    """
    data = request.body
    if len(data) < LARGE_BYTES:
        return decode_body(data, kind)
    try:
        return await asyncio.to_thread(decode_body, data, kind)
    finally:
        del data
        _let_go(request)


def _let_go(request: HttpRequest) -> None:
    """Free a parsed body, because the request lives as long as its response streams."""
    # private: HttpRequest.{_body,_stream}. Price: this function. Why: a stream of ten minutes
    # would hold a history of 16 MiB twice.
    vars(request).update(_body=b"", _stream=BytesIO())
    leave_large_body(getattr(request, "scope", {}))


def decode_body(data: bytes, kind: type[Body]) -> Body:
    """Return a body's value. Raises as ``read_body`` does."""
    return convert_body(parse_json(data, most_values=MOST_HISTORY_VALUES), kind)


def convert_body(value: Any, kind: type[Body]) -> Body:
    """Return parsed JSON as a struct. Raises ValidationFailed as ``read_body`` does."""
    try:
        return convert_to(value, kind)
    except msgspec.ValidationError as error:
        first = error
    try:
        return convert_to(_with_whole_numbers(value), kind)
    except msgspec.ValidationError:
        raise _refusal(str(first)) from first


def _with_whole_numbers(value: Any) -> Any:
    """Return JSON with integral floats as integers: 3.0 and 3 are the same number in JSON."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [_with_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_whole_numbers(item) for key, item in value.items()}
    return value


def _refusal(text: str) -> ValidationFailed:
    """Return the error for msgspec's message, which ends with the path: ``- at `$.a[0]```."""
    place = _PLACE.search(text)
    words = text[: place.start()] if place else text
    path = place["path"].removeprefix(".") if place else ""
    missing = _MISSING.match(words)
    if missing:
        field = f"{path}.{missing['field']}" if path else missing["field"]
        return ValidationFailed(f"Missing required parameter: '{field}'.", field=field)
    field = path or "body"
    return ValidationFailed(f"Invalid value for '{field}': {words}.", field=field)
