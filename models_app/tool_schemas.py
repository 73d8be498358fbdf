"""Inlines the references of tool schemas, which model servers don't resolve. Pure.

Ollama drops unknown keywords when it renders a schema into the prompt: a property that is only a
``$ref`` becomes ``{}``, and the model never sees its fields.
"""

import json
from collections.abc import Iterable, Mapping
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

_DEFINITIONS = ("$defs", "definitions")
_SCHEMA_MAPS = frozenset(["properties", "patternProperties", "dependentSchemas"])
_SCHEMAS = frozenset([
    "anyOf", "oneOf", "allOf", "prefixItems", "items", "additionalProperties",
    "unevaluatedProperties", "contains", "propertyNames", "not", "if", "then", "else",
])  # fmt: skip
"""Keywords of a subschema, or of a list of them."""


def inline_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return one schema as ``inline_all`` does."""
    return inline_all([schema])[0]


def inline_all(schemas: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the schemas of a request with every local ``$ref`` replaced by its target.

    Keywords beside a ``$ref``, such as a description, take precedence over those of the target. In
    a recursive schema, the inner occurrence becomes a plain object, and so does a schema that is
    nested too deep for JSON libraries. References to other documents, dangling ones, and those
    that would make a schema too large or too deep are left. ``$schema`` of a root is left out. The
    arguments are not changed.
    """
    encoded = [_encoded(schema) for schema in schemas]
    left = max(MOST_WRITTEN_OUT, sum(map(len, encoded)))
    inlined = []
    for text in encoded:
        inline = _inline if len(text) <= MOST_OF_A_SCHEMA else _inline.__wrapped__
        schema, added = inline(text, min(left, max(MOST_OF_A_SCHEMA, len(text))))
        left -= added
        # Some servers' grammars refuse a schema that says by which draft it is written.
        inlined.append({key: value for key, value in schema.items() if key != "$schema"})
    return inlined


def bounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema, or a plain object if it is nested too deep for JSON libraries."""
    shallow: dict[str, Any] = json.loads(_encoded(schema))
    return shallow


def _encoded(schema: Mapping[str, Any] | bool) -> bytes:
    try:
        return orjson.dumps(schema, default=dict)
    except TypeError as error:
        if "Recursion" not in str(error):
            with suppress(RecursionError):
                return json.dumps(schema, default=dict).encode()  # integers of any size
        return b'{"type":"object"}'


@lru_cache(maxsize=256)
def _inline(encoded: bytes, allowance: int) -> tuple[dict[str, Any], int]:
    """Return a schema with its references replaced, and the bytes that they add."""
    schema: dict[str, Any] = json.loads(encoded)
    if b'"$ref"' not in encoded:
        return schema, 0
    inliner = _Inliner(schema, allowance)
    written_out = inliner.node(schema, ())
    if not inliner.leaves_references:
        written_out = {key: it for key, it in written_out.items() if key not in _DEFINITIONS}
    return written_out, allowance - inliner.left


class _Inliner:
    """Replaces the references of one schema.

    Attributes:
        left: The bytes of JSON that may still be added.
        leaves_references: Whether a local reference may be left, which needs its definition.
    """

    def __init__(self, root: dict[str, Any], allowance: int) -> None:
        self._root = root
        self.left = allowance
        self.leaves_references = False

    def node(self, schema: Any, path: tuple[str, ...], level: int = 0) -> Any:
        """Return a subschema with its references replaced.

        Args:
            schema: The subschema, or a list of them.
            path: The references that led to it.
            level: The number of subschemas around it.
        """
        if isinstance(schema, list):
            return [self.node(it, path, level) if isinstance(it, dict) else it for it in schema]
        if not isinstance(schema, dict) or level > MAX_LEVELS:
            self.leaves_references |= isinstance(schema, dict)
            return schema
        written_out = {}
        for key, value in schema.items():
            if key in _SCHEMA_MAPS and isinstance(value, dict):
                written_out[key] = {it: self.node(value[it], path, level + 1) for it in value}
            else:
                written_out[key] = self.node(value, path, level + 1) if key in _SCHEMAS else value
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return written_out
        if reference in path:
            target: Any = {"type": "object"}
        elif (target := self._target(reference)) is None:
            return written_out
        else:
            target = self.node(target, (*path, reference), level + 1)
        del written_out["$ref"]
        return {**target, **written_out} if isinstance(target, dict) else written_out

    def _target(self, reference: str) -> Any:
        """Return what a reference leads to; None if it leads nowhere, or to too much."""
        found: Any = self._root
        try:
            for raw in reference.split("/")[1:]:
                part = unquote(raw).replace("~1", "/").replace("~0", "~")
                found = found[int(part) if isinstance(found, list) else part]
        except (LookupError, TypeError, ValueError):
            return None
        if not isinstance(found, dict | bool):
            return None
        self.left -= len(_encoded(found)) if self.left > 0 else 0
        self.leaves_references |= self.left <= 0
        return found if self.left > 0 else None
