"""Describes functions to models, also as ``ollama.Tool``, for users of the library."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tools_app.functions.schema import FunctionSchema, schema_of

if TYPE_CHECKING:
    from ollama import Tool

_DEFINITIONS = "#/$defs/"


class ToolSchemaService:
    """Describes functions to models."""

    def __init__(self) -> None:
        # Keeps the function too: an id can be reused once its object is gone.
        self._tools: dict[tuple[str, int], tuple[Callable[..., Any], Tool]] = {}

    def get_schema(self, function: Callable[..., Any]) -> Mapping[str, Any]:
        """Return the whole JSON schema of the function's parameters, nested models too.

        Raises:
            SchemaError: A parameter has a type that JSON can't express, or one that can't be found.
        """
        return schema_of(function).json_schema

    def get_description(self, function: Callable[..., Any]) -> str:
        """Return the description of the function from its docstring.

        Raises:
            SchemaError: As for :meth:`get_schema`.
        """
        return schema_of(function).description

    def get_parameters(self, function: Callable[..., Any]) -> Mapping[str, Mapping[str, str]]:
        """Return the parameters for people: ``{name: {"type": "float", "description": "..."}}``.

        Raises:
            SchemaError: As for :meth:`get_schema`.
        """
        return schema_of(function).parameters

    def to_ollama_tool(self, function: Callable[..., Any]) -> "Tool":
        """Return the function as an ``ollama.Tool``; cached by name and function.

        ``ollama.Tool`` (0.6) can't express defaults, bounds and nested or alternative objects: of a
        nested model only the type remains. (The server sends whole schemas.) Parameters with a
        default are not required, unlike in ``ollama``'s own conversion.

        Raises:
            SchemaError: As for :meth:`get_schema`.
        """
        key = (str(getattr(function, "__name__", "")), id(function))
        if key not in self._tools:
            self._tools[key] = (function, _tool_of(key[0], schema_of(function)))
        return self._tools[key][1]


def _tool_of(name: str, schema: FunctionSchema) -> "Tool":
    from ollama import Tool  # noqa: PLC0415 - most users of tools do not need it

    whole = schema.json_schema
    definitions = whole.get("$defs", {})
    parameters = Tool.Function.Parameters(
        type="object",
        required=list(whole.get("required", [])),
        properties={
            parameter: Tool.Function.Parameters.Property(**_property(described, definitions))
            for parameter, described in whole.get("properties", {}).items()
        },
    )
    return Tool(
        function=Tool.Function(name=name, description=schema.description, parameters=parameters)
    )


def _property(described: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a schema that a property of ``ollama.Tool`` can express."""
    flat = _resolved(described, definitions)
    choices = [_resolved(choice, definitions) for choice in flat.get("anyOf", [])]
    kinds = [choice["type"] for choice in choices if isinstance(choice.get("type"), str)]
    kept: dict[str, Any] = {k: flat[k] for k in ("type", "description", "enum") if k in flat}
    if "items" in flat:
        kept["items"] = _resolved(flat["items"], definitions)
    if kinds and "type" not in kept:
        kept["type"] = kinds if len(kinds) > 1 else kinds[0]
    return kept


def _resolved(described: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with its ``$ref``, if any, replaced by the definition."""
    if not isinstance(described, Mapping):
        return {}
    reference = described.get("$ref", "")
    target = definitions.get(reference.removeprefix(_DEFINITIONS), {}) if reference else {}
    return {**target, **{key: value for key, value in described.items() if key != "$ref"}}
