"""Inlines the references of tool schemas, which model servers don't resolve. Pure.

Ollama drops unknown keywords when it renders a schema into the prompt: a property that is only a
``$ref`` becomes ``{}``, and the model never sees its fields.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

MAX_NODES = 20_000
"""Subschemas at most; references that expand beyond this become a plain object."""

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
    """Return the schema with every local ``$ref`` replaced by its target.

    Keywords beside a ``$ref``, such as a description, take precedence over those of the target. In
    a recursive schema, the inner occurrence becomes a plain object. References to other documents,
    and dangling ones, are left as they are. The argument is not changed.
    """
    written_out = _Inliner(schema).node(schema, ())
    if isinstance(written_out, dict):
        for key in _ROOT_DEFINITIONS:
            written_out.pop(key, None)
        return written_out
    return dict(schema)


class _Inliner:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def node(self, schema: Any, path: tuple[str, ...]) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        self._nodes += 1
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            return self._resolve(schema, reference, path)
        return {key: self._value(key, value, path) for key, value in schema.items()}

    def _value(self, key: str, value: Any, path: tuple[str, ...]) -> Any:
        if key in _SCHEMA_MAPS and isinstance(value, Mapping):
            return {name: self.node(part, path) for name, part in value.items()}
        if key in _SCHEMA_LISTS and isinstance(value, list | tuple):
            return [self.node(part, path) for part in value]
        if key in _SCHEMAS:
            if isinstance(value, list | tuple):  # ``items`` as drafts before 2020-12 wrote tuples
                return [self.node(part, path) for part in value]
            return self.node(value, path)
        return value

    def _resolve(self, schema: Mapping[str, Any], reference: str, path: tuple[str, ...]) -> Any:
        beside = {
            key: self._value(key, value, path) for key, value in schema.items() if key != "$ref"
        }
        target = self._look_up(reference)
        if target is None:
            return {"$ref": reference, **beside}
        if reference in path or self._nodes > MAX_NODES:
            return {"type": "object", **beside}
        written_out = self.node(target, (*path, reference))
        return {**written_out, **beside} if isinstance(written_out, dict) else beside

    def _look_up(self, reference: str) -> Any:
        found: Any = self._root
        for raw in reference[1:].split("/")[1:]:
            part = unquote(raw).replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and part in found:
                found = found[part]
            elif isinstance(found, Sequence) and not isinstance(found, str) and part.isdecimal():
                index = int(part)
                found = found[index] if index < len(found) else None
            else:
                return None
        return found if isinstance(found, Mapping | bool) else None
