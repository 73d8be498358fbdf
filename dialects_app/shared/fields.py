"""Refuses values of fields, and names fields in errors as the request does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from sessions_app.errors import MochiError, ValidationFailed


def refuse(path: str, message: str, **details: Any) -> NoReturn:
    """Refuse a request because of the value at a path.

    Raises:
        ValidationFailed: Always.
    """
    raise ValidationFailed(message, field=path, **details)


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
