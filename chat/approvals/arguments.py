"""Checks arguments that a person edited against the schema of their tool. Pure."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sessions_app.errors import ValidationFailed

_MAX_WORDS = 300
_MAX_STEPS = 20_000


class _TooManySteps(Exception):
    """Raised for a schema that takes too many steps to check."""


def check_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Refuse arguments that do not fit the schema.

    Regular expressions are left to the tool, as an MCP server's could take forever. So are invalid
    schemas, and those with too many branches, since the arguments may be right.

    Raises:
        ValidationFailed: ``details.field`` names the argument.
    """
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - few approvals are edited

    try:
        faults = _validator_of(itertools.count())(schema).iter_errors(dict(arguments))
        fault = best_match(faults)
    except Exception:  # noqa: BLE001 - schemas are foreign: wrong types, references without end
        return
    if fault is None:
        return
    words = fault.message
    if len(words) > _MAX_WORDS:
        words = f"{words[:_MAX_WORDS]}..."
    field = ".".join(["arguments", *map(str, fault.absolute_path)])
    raise ValidationFailed(f"{field}: {words}. The call still waits for its approval.", field=field)


def _validator_of(steps: Iterator[int]) -> Callable[[Mapping[str, Any]], Any]:
    """Return a factory of validators that ignore regular expressions and external references.

    Args:
        steps: Counts the keywords that are checked.
    """
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from jsonschema.validators import extend  # noqa: PLC0415
    from referencing.jsonschema import EMPTY_REGISTRY  # noqa: PLC0415

    additional = Draft202012Validator.VALIDATORS["additionalProperties"]

    def no_others(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
        if "patternProperties" not in schema:
            yield from additional(validator, rule, value, schema) or ()

    def nothing(*_: Any) -> Iterator[Any]:
        return iter(())

    def counted(check: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any) -> Any:
            if next(steps) >= _MAX_STEPS:
                raise _TooManySteps
            return check(*given)

        return counting

    left_out = {"pattern": nothing, "patternProperties": nothing, "additionalProperties": no_others}
    checks = {**Draft202012Validator.VALIDATORS, **left_out}
    kind = extend(Draft202012Validator, {name: counted(check) for name, check in checks.items()})
    return lambda schema: kind(schema, registry=EMPTY_REGISTRY)
