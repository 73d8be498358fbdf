"""Formats types in Python's notation: ``list[str]``, ``str | None``. Pure."""

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin


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
