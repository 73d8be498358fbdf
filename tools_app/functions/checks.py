"""Checks whether an object can be offered as a tool, and says what to change. Pure."""

import inspect
from collections.abc import Callable
from typing import Any

from tools_app.functions.importing import Placeholder
from tools_app.toolset import AGENT_TOOL, TOOL_NAME

_UNFILLABLE = {
    inspect.Parameter.VAR_POSITIONAL: "*{0} can't be filled by a model, which names what it "
    "passes: take a list instead (a decorator should use functools.wraps).",
    inspect.Parameter.VAR_KEYWORD: "**{0} can't be described to a model: name each parameter, or "
    "take a dict (a decorator should use functools.wraps).",
    inspect.Parameter.POSITIONAL_ONLY: "The parameter {0!r} can only be passed by position, and "
    "a model names what it passes: remove the '/'.",
}


def fault_of(name: str, value: object) -> str | None:
    """Return why ``value`` can't be the tool ``name``, as a sentence; None when it can."""
    if isinstance(value, Placeholder):
        return value.reason
    if not TOOL_NAME.fullmatch(name):
        return (
            "A model can't call a tool of this name: use 1 to 64 ASCII letters, digits and '_', "
            "beginning with a letter or '_'."
        )
    if name == AGENT_TOOL:
        return f"{name!r} is the name of the tool that calls agents: give it another one."
    if inspect.isclass(value):
        return "It is a class: export a function that uses it."
    if not callable(value):
        return f"It is not a function but a value of type {type(value).__name__}."
    return _fault_of_function(value)


def _fault_of_function(function: Callable[..., Any]) -> str | None:
    inner = inspect.unwrap(function)
    if not inspect.isroutine(inner):
        return f"It is not a function but an object of type {type(inner).__name__}: use 'def'."
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        return "It yields: a tool returns its whole result, best as a string."
    documentation = function.__doc__
    if not isinstance(documentation, str) or not documentation.strip():
        return "It has no docstring, which tells the model what it does: add one."
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "Its parameters can't be found out: wrap it in a function written with 'def'."
    return _fault_of_signature(signature)


def _fault_of_signature(signature: inspect.Signature) -> str | None:
    for parameter in signature.parameters.values():
        if parameter.kind in _UNFILLABLE:
            return _UNFILLABLE[parameter.kind].format(parameter.name)
    untyped = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.annotation is inspect.Parameter.empty
    ]
    if untyped:
        names = ", ".join(repr(name) for name in untyped)
        return f"Without a type hint: {names}. Add one to each, such as '{untyped[0]}: str'."
    if signature.return_annotation is inspect.Signature.empty:
        return "It has no type hint for what it returns: add one, such as '-> str'."
    return None
