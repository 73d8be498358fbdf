"""Functions as Ollama's library wants to be told of them: the library class for schemas."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tools_app.functions.schema import FunctionSchema, schema_of

if TYPE_CHECKING:
    from ollama import Tool

_DEFINITIONS = "#/$defs/"


class ToolSchemaService:
    """Describes functions to models (seed 000 section 13.6). Usable as a library."""

    def __init__(self) -> None:
        # An id can be given to another function once this one is gone: so the function is kept.
        self._tools: dict[tuple[str, int], tuple[Callable[..., Any], Tool]] = {}

    def get_schema(self, function: Callable[..., Any]) -> Mapping[str, Any]:
        """Return the whole JSON schema of the function's parameters, nested models too.

        Raises:
            SchemaError: A parameter has a type that JSON can't express, or one that can't be found.
        """
        return schema_of(function).json_schema

    def get_description(self, function: Callable[..., Any]) -> str:
        """Return what the docstring says of the function as a whole.

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
        """Return the function as an ``ollama.Tool``; made once for each name and function.

        ``ollama.Tool`` (0.6) has no place for defaults, for bounds, and for what is in a property
        that is an object or one of several types: of a nested model the name of its type is left.
        The server sends schemas whole instead. Parameters with a default are not required, unlike
        with ``ollama``'s own conversion.

        Raises:
            SchemaError: As for :meth:`get_schema`.
        """
        key = (str(getattr(function, "__name__", "")), id(function))
        if key not in self._tools:
            self._tools[key] = (function, _tool_of(key[0], schema_of(function)))
        return self._tools[key][1]


def _tool_of(name: str, schema: FunctionSchema) -> "Tool":
    from ollama import Tool  # noqa: PLC0415 - most users of tools never talk to Ollama themselves

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
    """Return what a property of ``ollama.Tool`` can say."""
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
    """Return the schema with the definition that it refers to, if it does, written into it."""
    if not isinstance(described, Mapping):
        return {}
    reference = described.get("$ref", "")
    target = definitions.get(reference.removeprefix(_DEFINITIONS), {}) if reference else {}
    return {**target, **{key: value for key, value in described.items() if key != "$ref"}}
