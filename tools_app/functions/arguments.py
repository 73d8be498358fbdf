"""Turns validation errors of arguments into sentences that a model can act on. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tools_app.text import shortened

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MAX_FAULTS = 10
MAX_SHOWN_CHARS = 80


def faults_of(
    error: "ValidationError",
    arguments: Mapping[str, Any],
    parameters: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """Return one sentence for each fault, ten at most.

    Args:
        error: Pydantic's error.
        arguments: The arguments that were passed.
        parameters: The function's parameters: {name: {"type": in Python's notation}}.
    """
    wrong: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    faults = []
    for detail in error.errors(include_url=False, include_context=False):
        location = detail["loc"]
        if detail["type"] == "missing" and len(location) == 1:
            name = str(location[0])
            faults.append(f"The argument {name!r} ({parameters[name]['type']}) is missing.")
        elif detail["type"] == "extra_forbidden" and len(location) == 1:
            faults.append(_unknown(str(location[0]), list(parameters)))
        else:
            path = _path(location, arguments)
            wrong.setdefault(path, []).append(_words(detail))
            shown[path] = _shown(detail)
    for path, words in wrong.items():
        told = ", or ".join(dict.fromkeys(words))
        faults.append(f"The argument {path!r} is wrong: {told}{shown[path]}.")
    if len(faults) > MAX_FAULTS:
        faults[MAX_FAULTS:] = [f"There are {len(faults) - MAX_FAULTS} more faults."]
    return faults


def _unknown(name: str, choices: Sequence[str]) -> str:
    if not choices:
        return f"There is no argument {shortened(name, MAX_SHOWN_CHARS)!r}: the tool takes none."
    names = ", ".join(repr(one) for one in choices)
    return f"There is no argument {shortened(name, MAX_SHOWN_CHARS)!r}; the arguments are {names}."


def _path(location: Sequence[int | str], arguments: Mapping[str, Any]) -> str:
    """Return the location in Python's notation, without the type names that pydantic adds."""
    value: Any = arguments
    path = ""
    for part in location:
        if isinstance(part, int) and isinstance(value, list | tuple) and part < len(value):
            path += f"[{part}]"
        elif isinstance(value, Mapping) and part in value:
            path += f".{shortened(str(part), MAX_SHOWN_CHARS)}" if path else str(part)
        else:
            continue
        value = value[part]
    return path or str(location[0] if location else "arguments")


def _words(detail: "ErrorDetails") -> str:
    if detail["type"] == "missing":
        return f"{detail['loc'][-1]!r} is missing"
    if detail["type"] == "extra_forbidden":
        return f"there is no {detail['loc'][-1]!r}"
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return (message[:1].lower() + message[1:]).rstrip(".")


def _shown(detail: "ErrorDetails") -> str:
    if detail["type"] in {"missing", "extra_forbidden"}:
        return ""
    try:
        text = json.dumps(detail["input"], ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # from a program, not from a model
        text = type(detail["input"]).__name__
    return f" (it is {shortened(text, MAX_SHOWN_CHARS)})"
