"""Reads ``metadata``: pairs of text that clients attach to resources. Pure."""

from collections.abc import Mapping
from typing import Any

from sessions_app.errors import ValidationFailed

MAX_PAIRS = 16
MAX_KEY = 64
MAX_VALUE = 512


def read_labels(value: Any, *, field: str = "metadata") -> Mapping[str, str]:
    """Return the pairs; none for null.

    Raises:
        ValidationFailed: It is something else, or holds too much.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValidationFailed(
            f"Invalid type for '{field}': expected an object of texts.", field=field
        )
    if len(value) > MAX_PAIRS:
        raise ValidationFailed(
            f"'{field}' holds {MAX_PAIRS} pairs at most; these are {len(value)}.", field=field
        )
    for key, text in value.items():
        if not key or len(key) > MAX_KEY:
            raise ValidationFailed(
                f"A key of '{field}' has 1 to {MAX_KEY} characters.",
                field=f"{field}.{key[:MAX_KEY]}",
            )
        if not isinstance(text, str) or len(text) > MAX_VALUE:
            raise ValidationFailed(
                f"A value of '{field}' is a text of {MAX_VALUE} characters at most.",
                field=f"{field}.{key}",
            )
    return value
