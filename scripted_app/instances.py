"""Generates a small value that satisfies a JSON schema. Pure.

Reads what pydantic and hand-written schemas use: types, ``enum``, ``const``, ``anyOf``, ``oneOf``,
``allOf``, local ``$ref``, bounds of numbers, strings and arrays, common string formats. Does not
look at ``pattern``, ``not``, ``if`` and ``uniqueItems``.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any

WORD = "lorem"
CONSTANTS = {"boolean": True, "null": None}
FORMATS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "lorem@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}

MOST = 100_000
"""The most items of an array, and characters of a string: a schema may ask for billions."""

Schema = Mapping[str, Any]


class _NoInstance(ValueError):
    """Nothing finite satisfies this part of the schema."""


def smallest_instance(schema: Any) -> Any:
    """Return a small value that satisfies a JSON schema.

    Every property is filled where that can end, arrays get one item, enums give their first value
    and strings are lorem.

    Raises:
        ValueError: Nothing finite satisfies the schema, or it can't be read.
    """
    try:
        return _Writer(schema).write(schema, ())
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None
    except (TypeError, AttributeError, KeyError, IndexError) as error:
        raise ValueError(f"the schema can't be read: {error}") from error


class _Writer:
    """Writes parts of one schema; ``trail`` holds the references that led to a part."""

    def __init__(self, root: Any) -> None:
        self._root = root

    def write(self, schema: Any, trail: tuple[str, ...]) -> Any:
        if schema is True or schema == {}:
            return WORD
        if schema is False:
            raise _NoInstance("false allows nothing")
        if "$ref" in schema:
            return self._follow(schema["$ref"], trail)
        if "const" in schema or "enum" in schema:
            return schema["const"] if "const" in schema else schema["enum"][0]
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._first_possible(schema, key, trail)
        if "allOf" in schema:
            return self.write(self._merged(schema), trail)
        return self._of_type(schema, trail)

    def _of_type(self, schema: Schema, trail: tuple[str, ...]) -> Any:
        kind = _type_of(schema)
        if kind == "object":
            return self._object(schema, trail)
        if kind == "array":
            return self._array(schema, trail)
        if kind in ("integer", "number"):
            number = _number(schema, whole=kind == "integer")
            return int(number) if kind == "integer" else number
        return _string(schema) if kind == "string" else CONSTANTS[kind]

    def _follow(self, reference: str, trail: tuple[str, ...]) -> Any:
        if reference in trail:
            raise _NoInstance(f"{reference} leads to itself")
        return self.write(self._resolve(reference), (*trail, reference))

    def _resolve(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise _NoInstance(f"{reference} lies outside of the schema")
        part = self._root
        for name in reference.removeprefix("#").split("/")[1:]:
            key = name.replace("~1", "/").replace("~0", "~")
            part = part[int(key)] if isinstance(part, list) else part[key]
        return part

    def _first_possible(self, schema: Schema, key: str, trail: tuple[str, ...]) -> Any:
        rest = {name: value for name, value in schema.items() if name != key}
        alternatives = sorted(schema[key], key=lambda each: each == {"type": "null"})
        reason: _NoInstance | None = None
        for each in alternatives:
            try:
                return self.write({**rest, **each} if isinstance(each, Mapping) else each, trail)
            except _NoInstance as error:
                reason = error
        raise reason or _NoInstance(f"{key} is empty")

    def _merged(self, schema: Schema) -> Schema:
        merged = {name: value for name, value in schema.items() if name != "allOf"}
        properties, required = dict(merged.get("properties", {})), list(merged.get("required", ()))
        for part in schema["allOf"]:
            known = self._resolve(part["$ref"]) if "$ref" in part else part
            flat = self._merged(known) if "allOf" in known else known
            properties |= flat.get("properties", {})
            required += flat.get("required", ())
            merged |= flat
        if properties:
            merged |= {"properties": properties, "required": required}
        return merged

    def _object(self, schema: Schema, trail: tuple[str, ...]) -> dict[str, Any]:
        required = schema.get("required", ())
        value: dict[str, Any] = {}
        for name, part in schema.get("properties", {}).items():
            try:
                value[name] = self.write(part, trail)
            except _NoInstance:
                if name in required:
                    raise
        others = schema.get("additionalProperties", True) or True
        for name in required:
            if name not in value:
                value[name] = self.write(others, trail)
        return value

    def _array(self, schema: Schema, trail: tuple[str, ...]) -> list[Any]:
        items = [self.write(part, trail) for part in schema.get("prefixItems", ())]
        least = schema.get("minItems", 0)
        wanted = min(max(least, 1), schema.get("maxItems", max(least, 1)))
        if len(items) >= wanted or schema.get("items") is False:
            return items
        _require_small(wanted)
        try:
            item = self.write(schema.get("items", True), trail)
        except _NoInstance:
            if least > len(items):
                raise
            return items
        return items + [item] * (wanted - len(items))


def _type_of(schema: Schema) -> str:
    named = schema.get("type")
    if isinstance(named, list):
        return str(next((each for each in named if each != "null"), "null"))
    if named is not None:
        return str(named)
    if "properties" in schema or "required" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else "string"


def _string(schema: Schema) -> str:
    form = schema.get("format")
    if form in FORMATS:
        return FORMATS[form]
    least = schema.get("minLength", 0)
    _require_small(least)
    text = WORD
    while len(text) < least:
        text += f" {WORD}"
    return text[: max(schema.get("maxLength", len(WORD)), least)]


def _require_small(size: int) -> None:
    if size > MOST:
        raise _NoInstance(f"{size} items or characters are more than {MOST}")


def _number(schema: Schema, *, whole: bool) -> float:
    """Return 1, or the closest number within the bounds."""
    step = schema.get("multipleOf", 1 if whole else None)
    low = max(schema.get("minimum", -1e15), schema.get("exclusiveMinimum", -1e15))
    high = min(schema.get("maximum", 1e15), schema.get("exclusiveMaximum", 1e15))
    candidates: list[float] = [1, 0, low, high, low + 1, high - 1, (low + high) / 2]
    if step:
        near = ceil(low / step)
        candidates += [step, near * step, (near + 1) * step]
    for value in candidates:
        inside = low <= value <= high
        excluded = value in (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"))
        if inside and not excluded and not (step and value % step):
            return value
    raise _NoInstance(f"no number lies between {low} and {high}")
