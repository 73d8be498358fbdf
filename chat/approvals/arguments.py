"""Checks arguments that a person edited against the schema of their tool."""

from collections.abc import Mapping
from typing import Any

from sessions_app.errors import ValidationFailed


def check_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Refuse arguments that do not fit the schema; blocks for seconds at most.

    What can't be checked is left to the tool, since the arguments may be right.

    Raises:
        ValidationFailed: ``details.field`` names the argument.
    """
    from sessions_app.json_schema import find_fault  # noqa: PLC0415 - few approvals are edited

    fault = find_fault(dict(arguments), schema)
    if fault is not None:
        field = f"arguments.{fault.path}" if fault.path else "arguments"
        raise ValidationFailed(
            f"{field}: {fault.words}. The call still waits for its approval.", field=field
        )
