"""Validates ``metadata``: pairs of strings that clients attach to resources. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from sessions_app.errors import ValidationFailed

MAX_PAIRS = 16
MAX_KEY = 64
MAX_VALUE = 512

Labels = Annotated[Any, Meta(extra_json_schema={"type": ["object", "null"]})]
"""Metadata in a body, for ``read_labels``."""


def read_labels(value: Any) -> Mapping[str, str]:
    """Return the pairs; none for null.

    Raises:
        ValidationFailed: It has another type, or is too large.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValidationFailed(
            "Invalid type for 'metadata': expected an object of texts.", field="metadata"
        )
    if len(value) > MAX_PAIRS:
        raise ValidationFailed(
            f"'metadata' holds {MAX_PAIRS} pairs at most; these are {len(value)}.",
            field="metadata",
        )
    for key, text in value.items():
        if not key or len(key) > MAX_KEY:
            raise ValidationFailed(
                f"A key of 'metadata' has 1 to {MAX_KEY} characters.",
                field=f"metadata.{key[:MAX_KEY]}",
            )
        if not isinstance(text, str) or len(text) > MAX_VALUE:
            raise ValidationFailed(
                f"A value of 'metadata' is a text of {MAX_VALUE} characters at most.",
                field=f"metadata.{key}",
            )
    return value
