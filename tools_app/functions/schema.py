"""Describes a function's parameters as JSON schema, and binds arguments to them."""

import inspect
import json
import math
import types
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PydanticSchemaGenerationError,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_jsonable_python

from sessions_app.messages import ToolSpec
from tools_app.errors import ArgumentsInvalid
from tools_app.functions.arguments import faults_of
from tools_app.functions.docstrings import read_docstring

__all__ = ["ArgumentsInvalid", "FunctionSchema", "SchemaError", "bind", "describe", "schema_of"]

_CACHED = 1024
_REQUIRED = inspect.Parameter.empty
# Models often pass 5 for "5": no reason to refuse the call.
_CONFIG = ConfigDict(extra="forbid", coerce_numbers_to_str=True)


class SchemaError(Exception):
    """A function can't be described as JSON; the message says what to change."""


class FunctionSchema:
    """The schema of a function's parameters.

    Attributes:
        description: The docstring without its sections.
        json_schema: The JSON schema of an object with the arguments; nested models are under
            ``$defs``.
        parameters: For people: ``{name: {"type": "float", "description": "..."}}``, with types in
            Python's notation.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        documentation = read_docstring(function.__doc__)
        hints = _hints_of(function)
        described = documentation.parameters
        self.description = documentation.description
        self._names = {f"p{number}": name for number, name in enumerate(hints)}
        self._has_default = {name for name, (_, default) in hints.items() if _is_python(default)}
        self._model = _model_of(
            {
                field: _field(name, *hints[name], described.get(name))
                for field, name in self._names.items()
            }
        )
        self.json_schema = _json_schema_of(self._model)
        self.parameters: Mapping[str, Mapping[str, str]] = {
            name: {
                "type": type_name(hints[name][0]),
                "description": self._model.model_fields[field].description or "",
            }
            for field, name in self._names.items()
        }

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return validated keyword arguments; see :func:`bind`."""
        if not isinstance(arguments, Mapping):
            raise ArgumentsInvalid(["The arguments must be a JSON object."])
        try:
            bound = self._model.model_validate(dict(arguments))
        except ValidationError as error:
            raise ArgumentsInvalid(faults_of(error, arguments, self.parameters)) from error
        return {
            name: getattr(bound, field)
            for field, name in self._names.items()
            if field in bound.model_fields_set or name not in self._has_default
        }


def schema_of(function: Callable[..., Any]) -> FunctionSchema:
    """Return the schema of the function's parameters, cached by function.

    Raises:
        SchemaError: A parameter has a type that JSON can't express, or one that can't be found.
    """
    try:
        hash(function)
    except TypeError:  # a method of an object that can't be hashed
        return _schema_of(function)
    return _cached_schema_of(function)


def describe(
    function: Callable[..., Any], *, name: str
) -> tuple[ToolSpec, Mapping[str, Mapping[str, str]]]:
    """Return the function's specification for a model, and its parameters for people.

    Args:
        function: The function.
        name: The name of the tool.

    Raises:
        SchemaError: A parameter has a type that JSON can't express, or one that can't be found.
    """
    schema = schema_of(function)
    spec = ToolSpec(name=name, description=schema.description, parameters=schema.json_schema)
    return spec, schema.parameters


def bind(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of a call, validated and coerced to the function's types.

    ``"5"`` becomes 5, objects become instances of the models that the type hints name. Omitted
    arguments with a default stay omitted.

    Args:
        function: The function.
        arguments: The arguments of the model's call, as decoded JSON.

    Raises:
        ArgumentsInvalid: The arguments don't fit; the message says what to correct.
        SchemaError: The function can't be described.
    """
    return schema_of(function).bind(arguments)


def _schema_of(function: Callable[..., Any]) -> FunctionSchema:
    try:
        return FunctionSchema(function)
    except SchemaError:
        raise
    except Exception as error:
        raise SchemaError(f"It can't be described as JSON: {_first_line(error)}") from error


_cached_schema_of = lru_cache(maxsize=_CACHED)(_schema_of)


def _hints_of(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Return {parameter: (type, default)}, with type hints in strings evaluated."""
    parameters = inspect.signature(function).parameters.values()
    written = SimpleNamespace(__annotations__={p.name: p.annotation for p in parameters})
    known = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        hints = get_type_hints(written, known, include_extras=True)
    except NameError as error:
        raise SchemaError(
            f"A type hint names {error.name!r}, which is not known when it runs: import it "
            "outside of 'if TYPE_CHECKING:'."
        ) from error
    except Exception as error:
        raise SchemaError(f"The type hints can't be understood: {_first_line(error)}") from error
    return {p.name: (hints[p.name], p.default) for p in parameters}


def _is_python(default: object) -> bool:
    """Return whether there is a default value, other than pydantic's ``Field``."""
    return default is not _REQUIRED and not isinstance(default, FieldInfo)


def _field(name: str, hint: Any, default: Any, description: str | None) -> tuple[Any, Any]:
    """Return a parameter as a model field; its name is an alias, so any name works."""
    if isinstance(default, FieldInfo):
        hint, default = Annotated[hint, default], _REQUIRED
        known: dict[str, Any] = {}
    elif default is _REQUIRED:
        known = {}
    else:
        known = {"default_factory": lambda: default, "json_schema_extra": _shown(default)}
    if description:
        known["description"] = description
    return hint, Field(alias=name, **known)


def _shown(default: Any) -> dict[str, Any]:
    try:
        plain = to_jsonable_python(default, inf_nan_mode="constants")
        json.dumps(plain, allow_nan=False)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return {}  # the schema says that there is a default, but not which
    return {"default": plain}


def _model_of(fields: Mapping[str, tuple[Any, Any]]) -> type[BaseModel]:
    definitions: dict[str, Any] = dict(fields)
    try:
        return create_model("Arguments", __config__=_CONFIG, **definitions)
    except Exception as error:
        for hint, field in fields.values():
            try:
                TypeAdapter(hint)
            except PydanticSchemaGenerationError as cause:
                raise SchemaError(
                    f"The parameter {field.alias!r} has the type {type_name(hint)}, which JSON "
                    "can't express: take text, numbers, lists, dicts, dataclasses or models."
                ) from cause
            except Exception as cause:
                raise SchemaError(
                    f"The type {type_name(hint)} of the parameter {field.alias!r} can't be used: "
                    f"{_first_line(cause)}"
                ) from cause
        raise SchemaError(f"It can't be described as JSON: {_first_line(error)}") from error


class _PlainSchema(GenerateJsonSchema):
    """Generates no titles, which only repeat names and cost tokens."""

    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def _json_schema_of(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=_PlainSchema)
    for named in (schema, *schema.get("$defs", {}).values()):
        named.pop("title", None)
    plain: dict[str, Any] = _finite(to_jsonable_python(schema))
    json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()
    return plain


def _finite(schema: Any) -> Any:
    """Return the schema without infinite bounds and defaults, which JSON can't express."""
    if isinstance(schema, list):
        return [_finite(value) for value in schema]
    if isinstance(schema, dict):
        return {
            key: _finite(value)
            for key, value in schema.items()
            if not isinstance(value, float) or math.isfinite(value)
        }
    return schema


def _first_line(error: Exception) -> str:
    words = str(error).split("\n", 1)[0]
    return f"{type(error).__name__}: {words}"[:300]


def type_name(hint: Any) -> str:
    """Return the type in Python's notation, without modules and annotations."""
    if hint in (None, type(None), ...):
        return "..." if hint is ... else "None"
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None or not arguments:
        return _bare(origin or hint)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin is Literal:
        return f"Literal[{', '.join(_literal(value) for value in arguments)}]"
    if origin in (Union, types.UnionType):
        return " | ".join(type_name(argument) for argument in arguments)
    return f"{_bare(origin)}[{', '.join(_inner(argument) for argument in arguments)}]"


def _inner(argument: Any) -> str:
    if isinstance(argument, list):  # the parameters of a Callable
        return f"[{', '.join(type_name(one) for one in argument)}]"
    return type_name(argument)


def _literal(value: Any) -> str:
    return f"{type(value).__name__}.{value.name}" if hasattr(value, "name") else repr(value)


def _bare(hint: Any) -> str:
    name = getattr(hint, "__name__", None) or str(hint).removeprefix("typing.")
    return str(name)
