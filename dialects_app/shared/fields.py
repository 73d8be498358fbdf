"""Refuses values of fields, and names fields in errors as the request does."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from sessions_app.errors import MochiError, ValidationFailed


def refuse(path: str, message: str, **details: Any) -> NoReturn:
    """Refuse a request because of the value at a path.

    Raises:
        ValidationFailed: Always.
    """
    raise ValidationFailed(message, field=path, **details)


def required(item: Mapping[str, Any], name: str, path: str) -> str:
    """Return a required string of an object.

    Raises:
        ValidationFailed: It is missing, or not a string.
    """
    value = item.get(name)
    if value is None:
        refuse(f"{path}.{name}", f"Missing required parameter: '{path}.{name}'.")
    if not isinstance(value, str):
        refuse(f"{path}.{name}", f"Invalid type for '{path}.{name}': expected a string.")
    return value


@contextmanager
def renamed_fields(rename: Callable[[str], str]) -> Iterator[None]:
    """Rename the fields in errors of a turn to those of its request."""
    try:
        yield
    except MochiError as error:
        field = error.details.get("field")
        if isinstance(field, str):
            error.details["field"] = rename(field)
        raise
