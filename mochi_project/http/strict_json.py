"""Parses request bodies as strict JSON, refusing texts on which parsers disagree."""

import json
from typing import Any

import orjson
from django.http import HttpRequest
from ninja.parser import Parser
from ninja.types import DictStrAny

from sessions_app.bounds import MOST_VALUES, has_too_many_values
from sessions_app.errors import MochiError, ValidationFailed

MAX_NESTING = 64


class MalformedBodyError(MochiError):
    """The body is malformed or ambiguous JSON."""

    code = "BAD_REQUEST"


class StrictJsonParser(Parser):
    """Parses bodies for Ninja with :func:`parse_json`."""

    def parse_body(self, request: HttpRequest) -> DictStrAny:
        """Return the body's object, or ``{}`` without a body.

        Other values are refused here: Ninja reads a schema's fields from any value, so a list would
        count as a request with defaults only.

        Raises:
            MalformedBodyError: The message says what is wrong, and where.
            ValidationFailed: The body has too many values, or is no object.
        """
        if not request.body:
            return {}
        value = parse_json(request.body)
        if not isinstance(value, dict):
            message = "must be a JSON object"
            raise ValidationFailed(
                f"body: {message}",
                field="body",
                errors=[{"field": "body", "message": message, "type": "dict_type"}],
            )
        return value


def parse_json(data: bytes, *, most_values: int = MOST_VALUES) -> Any:
    """Parse a JSON text in UTF-8.

    Stricter than :func:`json.loads`: no ``NaN`` or ``Infinity``, no number beyond a float, no key
    twice in an object, no lone surrogate, at most ``MAX_NESTING`` levels.

    Raises:
        MalformedBodyError: The message says what is wrong, and where.
        ValidationFailed: It has more values than it may.
    """
    if has_too_many_values(data, most_values):
        raise ValidationFailed(
            f"The body has more than {most_values:,} values.", field="body", limit=most_values
        )
    try:
        value = _decode(data.decode())
    except UnicodeDecodeError as error:
        raise MalformedBodyError(f"The body is not UTF-8 (byte {error.start}).") from error
    except json.JSONDecodeError as error:
        raise MalformedBodyError(
            f"The body is not JSON: {error.msg} (line {error.lineno}, column {error.colno})."
        ) from error
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:  # int() refuses thousands of digits
        raise MalformedBodyError("The body has a number with too many digits.") from error
    if data.count(b"[") + data.count(b"{") > MAX_NESTING and _is_deeper(value, MAX_NESTING):
        raise _too_deep()
    if b"\\ud" in data or b"\\uD" in data:
        _check_surrogates(data)
    return value


def _check_surrogates(data: bytes) -> None:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise MalformedBodyError(
            "The body has half of a surrogate pair (\\ud800 to \\udfff), which is not a character "
            f"(line {error.lineno}, column {error.colno})."
        ) from error


def _is_deeper(value: Any, levels: int) -> bool:
    row = [value]
    while row := [item for item in row if isinstance(item, dict | list)]:
        if levels == 0:
            return True
        levels -= 1
        row = [
            child for item in row for child in (item.values() if isinstance(item, dict) else item)
        ]
    return False


def _too_deep() -> MalformedBodyError:
    return MalformedBodyError(f"The body is nested deeper than {MAX_NESTING} levels.")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise MalformedBodyError(f"The body has the key {key[:100]!r} twice in an object.")
            seen.add(key)
    return value


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise MalformedBodyError(f"The body has a number that is too large: {text[:40]}.")
    return number


def _no_constant(name: str) -> Any:
    raise MalformedBodyError(f"The body has {name}, which is not JSON.")


_decode = json.JSONDecoder(
    object_pairs_hook=_without_duplicates, parse_float=_finite, parse_constant=_no_constant
).decode
