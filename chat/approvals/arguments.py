"""Checks arguments that a person edited against the schema of their tool."""

import json
from collections.abc import Mapping
from typing import Any

from sessions_app.errors import ValidationFailed
from sessions_app.messages import NO_EXTRA


def check_arguments(
    arguments: Mapping[str, Any],
    schema: Mapping[str, Any],
    *,
    of_model: Mapping[str, Any] = NO_EXTRA,
) -> None:
    """Refuse arguments that do not fit the schema; blocks for seconds at most.

    What can't be checked is left to the tool, since the arguments may be right. So are those that
    the model gave and nobody edited: tools take more than their schemas say, as null for nothing.

    Raises:
        ValidationFailed: ``details.field`` names the argument.
    """
    from sessions_app.json_schema import find_fault  # noqa: PLC0415 - few approvals are edited

    edited = _encoded(arguments)
    unchecked = [name for name, value in _encoded(of_model).items() if edited.get(name) == value]
    fault = find_fault(dict(arguments), schema, unchecked=unchecked)
    if fault is not None:
        field = f"arguments.{fault.path}" if fault.path else "arguments"
        raise ValidationFailed(
            f"{field}: {fault.words}. The call still waits for its approval.", field=field
        )


def _encoded(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return each argument as JSON: 1, 1.0 and true are equal in Python."""
    return {name: json.dumps(value, sort_keys=True) for name, value in arguments.items()}
