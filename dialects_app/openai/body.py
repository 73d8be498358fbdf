"""Reads the bodies of requests as msgspec structs.

Unknown fields are ignored: clients send dozens of them. A field that clients may send as null needs
``| None`` in its type.
"""

import asyncio
import re
from collections.abc import Callable
from io import BytesIO
from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest

from mochi_project.http.strict_json import parse_json
from mochi_project.memory.large_bodies import leave_large_body
from sessions_app.decoding import convert_to
from sessions_app.errors import ValidationFailed

LARGE_BYTES = 64 * 1024
"""From this size on, a body is read in a thread: whole histories come with each request."""

MOST_AT_ONCE = 200
"""So many messages and tools are read at once; the event loop does not wait for more of them."""

MOST_VALUES = 200_000
"""The most values in a body: one of nothing but brackets takes twenty times its size in memory."""

Body = TypeVar("Body")
Result = TypeVar("Result")

_TEXT_PIECE = re.compile(rb'[^"\\]*(?:\\.[^"\\]*){0,4096}', re.DOTALL)
"""A piece of a text: matches at once, whatever comes. Longer ones would keep the interpreter."""

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


async def beside(count: int, work: Callable[[], Result]) -> Result:
    """Process a body, in a thread if it has many parts.

    Args:
        count: The number of messages, tools and similar parts.
        work: The function to call; it does not wait for I/O.
    """
    return work() if count <= MOST_AT_ONCE else await asyncio.to_thread(work)


def _let_go(request: HttpRequest) -> None:
    """Free a parsed body, because the request lives as long as its response streams."""
    # private: HttpRequest.{_body,_stream}. Price: this function. Why: a stream of ten minutes
    # would hold a history of 16 MiB twice.
    vars(request).update(_body=b"", _stream=BytesIO())
    leave_large_body(getattr(request, "scope", {}))


def decode_body(data: bytes, kind: type[Body]) -> Body:
    """Return a body's value. Raises as ``read_body`` does."""
    if _has_too_many_values(data):
        raise ValidationFailed(
            f"The body has more than {MOST_VALUES:,} values.", field="body", limit=MOST_VALUES
        )
    return convert_body(parse_json(data), kind)


def _has_too_many_values(data: bytes) -> bool:
    if _values_in(data) <= MOST_VALUES:  # though the texts are counted, too
        return False
    values = end = 0
    # Text by text, so that other threads get their turn: the event loop's above all.
    while (begin := data.find(b'"', end)) >= 0:
        values += _values_in(data[end:begin])
        if values > MOST_VALUES:
            return True
        end = _end_of_text(data, begin + 1)
    return values + _values_in(data[end:]) > MOST_VALUES


def _end_of_text(data: bytes, begin: int) -> int:
    """Return the offset after a string's closing quote; the end of the data if there is none."""
    end = data.find(b'"', begin)
    if end >= 0 and data.find(b"\\", begin, end) < 0:  # as most do
        return end + 1
    end = begin
    while found := _TEXT_PIECE.match(data, end):
        if data[found.end() : found.end() + 1] == b'"':
            return found.end() + 1
        if found.end() == end:
            break
        end = found.end()
    return len(data)


def _values_in(structure: bytes) -> int:
    return structure.count(b",") + structure.count(b"[") + structure.count(b"{")


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
