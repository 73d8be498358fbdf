"""Checks arguments that a person edited against the schema of their tool. Pure."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from sessions_app.errors import ValidationFailed

_MAX_WORDS = 300


def check_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Refuse arguments that do not fit the schema.

    Patterns are left to the tool: one of an MCP server's could take for ever. So is a schema that
    can't be made sense of, which is no fault of the arguments.

    Raises:
        ValidationFailed: ``details.field`` names the argument.
    """
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - few approvals are edited

    try:
        fault = best_match(_validator_of()(schema).iter_errors(dict(arguments)))
    except Exception:  # noqa: BLE001 - schemas are foreign: wrong types, references without end
        return
    if fault is None:
        return
    words = fault.message
    if len(words) > _MAX_WORDS:
        words = f"{words[:_MAX_WORDS]}..."
    field = ".".join(["arguments", *map(str, fault.absolute_path)])
    raise ValidationFailed(f"{field}: {words}. The call still waits for its approval.", field=field)


@cache
def _validator_of() -> Callable[[Mapping[str, Any]], Any]:
    """Return a maker of validators that try no patterns and follow no reference to elsewhere."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from jsonschema.validators import extend  # noqa: PLC0415
    from referencing.jsonschema import EMPTY_REGISTRY  # noqa: PLC0415

    additional = Draft202012Validator.VALIDATORS["additionalProperties"]

    def no_others(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
        if "patternProperties" not in schema:
            yield from additional(validator, rule, value, schema) or ()

    def nothing(*_: Any) -> Iterator[Any]:
        return iter(())

    kind = extend(
        Draft202012Validator,
        {"pattern": nothing, "patternProperties": nothing, "additionalProperties": no_others},
    )
    return lambda schema: kind(schema, registry=EMPTY_REGISTRY)
