"""Inlines the references of tool schemas, which model servers don't resolve. Pure.

Ollama drops unknown keywords when it renders a schema into the prompt: a property that is only a
``$ref`` becomes ``{}``, and the model never sees its fields.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import orjson

MOST_WRITTEN_OUT = 1 << 20
"""Bytes of JSON that the references of a request's tools may add, unless the tools are larger."""

MOST_OF_A_SCHEMA = 64 << 10
"""The same for one tool, so that one that grows without end leaves something to the others."""

MAX_LEVELS = 64
"""Levels of subschemas in which references are replaced."""

_ROOT_DEFINITIONS = ("$defs", "definitions")
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMAS = frozenset(
    {
        "items",
        "additionalProperties",
        "unevaluatedProperties",
        "contains",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
    }
)


def inline_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return one schema as ``inline_all`` does."""
    return inline_all([schema])[0]


def inline_all(schemas: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the schemas of a request with every local ``$ref`` replaced by its target.

    Keywords beside a ``$ref``, such as a description, take precedence over those of the target. In
    a recursive schema, the inner occurrence becomes a plain object, and so does a schema that is
    nested too deep for JSON libraries. References to other documents, dangling ones, and those
    that would make a schema too large or too deep are left. The arguments are not changed.
    """
    encoded = [_encoded(schema) for schema in schemas]
    left = max(MOST_WRITTEN_OUT, sum(map(len, encoded)))
    inlined = []
    for text in encoded:
        schema, added = _inlined(text, min(left, max(MOST_OF_A_SCHEMA, len(text))))
        left -= added
        inlined.append(schema.copy())
    return inlined


def bounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema, or a plain object if it is nested too deep for JSON libraries."""
    shallow: dict[str, Any] = json.loads(_encoded(schema))
    return shallow


def _encoded(schema: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(schema, default=dict)
    except TypeError as error:
        if "Recursion" not in str(error):
            with suppress(RecursionError):
                return json.dumps(schema, default=dict).encode()  # integers of any size
        return b'{"type":"object"}'


def _inlined(encoded: bytes, allowance: int) -> tuple[dict[str, Any], int]:
    """Return a schema with its references replaced, and the bytes that they add."""
    if len(encoded) > MOST_OF_A_SCHEMA:
        return _inline(encoded, allowance)
    return _inline_once(encoded, allowance)


def _inline(encoded: bytes, allowance: int) -> tuple[dict[str, Any], int]:
    schema = json.loads(encoded)
    if b'"$ref"' not in encoded:
        return schema, 0
    inliner = _Inliner(schema, allowance)
    written_out = inliner.node(schema, ())
    if not inliner.leaves_references:
        for key in _ROOT_DEFINITIONS:
            written_out.pop(key, None)
    return written_out, allowance - inliner.left


_inline_once = lru_cache(maxsize=256)(_inline)


class _Inliner:
    """Replaces the references of one schema; equal ones by the same object.

    Attributes:
        left: The bytes of JSON that may still be added.
        leaves_references: Whether a local reference was left, which needs its definition.
    """

    def __init__(self, root: Mapping[str, Any], allowance: int) -> None:
        self._root = root
        self._known: dict[str, tuple[Any, int]] = {}
        self._cuts = 0
        self.left = allowance
        self.leaves_references = False

    def node(self, schema: Any, path: tuple[str, ...], level: int = 0) -> Any:
        """Return a subschema with its references replaced.

        Args:
            schema: The subschema.
            path: The references that led to it.
            level: The number of subschemas around it.
        """
        if not isinstance(schema, Mapping):
            return schema
        if level > MAX_LEVELS:
            return self._leave(schema)
        written_out = {
            key: self._value(key, value, path, level + 1) for key, value in schema.items()
        }
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            return self._resolve(written_out, reference, path, level)
        return written_out

    def _leave(self, schema: dict[str, Any] | Mapping[str, Any]) -> Any:
        self._cuts += 1
        self.leaves_references = True
        return schema

    def _value(self, key: str, value: Any, path: tuple[str, ...], level: int) -> Any:
        if key in _SCHEMA_MAPS and isinstance(value, Mapping):
            return {name: self.node(part, path, level) for name, part in value.items()}
        if key in _SCHEMA_LISTS and isinstance(value, list | tuple):
            return [self.node(part, path, level) for part in value]
        if key in _SCHEMAS:
            if isinstance(value, list | tuple):  # ``items`` as drafts before 2020-12 wrote tuples
                return [self.node(part, path, level) for part in value]
            return self.node(value, path, level)
        return value

    def _resolve(
        self, schema: dict[str, Any], reference: str, path: tuple[str, ...], level: int
    ) -> Any:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        if reference in path:
            self._cuts += 1
            return {"type": "object", **beside}
        if reference in self._known:
            written_out, added = self._known[reference]
            if added > self.left:
                return self._leave(schema)
            self.left -= added
        else:
            target = self._look_up(reference)
            if target is None:
                return schema
            before, cuts = self.left, self._cuts
            self.left -= len(_encoded(target)) if before > 0 else 0
            if self.left <= 0:
                return self._leave(schema)
            written_out = self.node(target, (*path, reference), level + 1)
            if cuts == self._cuts:  # else it is another one elsewhere
                self._known[reference] = written_out, before - self.left
        return {**written_out, **beside} if isinstance(written_out, dict) else beside

    def _look_up(self, reference: str) -> Any:
        found: Any = self._root
        for raw in reference[1:].split("/")[1:]:
            part = unquote(raw).replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and part in found:
                found = found[part]
            elif isinstance(found, Sequence) and not isinstance(found, str) and part.isdecimal():
                index = int(part[:9])  # int() refuses thousands of digits
                found = found[index] if index < len(found) else None
            else:
                return None
        return found if isinstance(found, Mapping | bool) else None
