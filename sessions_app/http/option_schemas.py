"""A session's sampling options, as a request may set them."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic.config import JsonDict

_WHOLE = frozenset(
    ["seed", "top_k", "max_tokens", "num_predict", "num_keep", "repeat_last_n", "thinking_budget"]
)
_NUMBERS = _WHOLE | {
    "temperature",
    "top_p",
    "min_p",
    "typical_p",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
}


def _check(options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Refuse what would fail with every answer, or do nothing; other names are the provider's."""
    for name, value in (options or {}).items():
        if name == "num_ctx":
            raise ValueError("`num_ctx` is what the session's `context_window` sets")
        if name not in _NUMBERS or value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"`{name}` is a number")  # noqa: TRY004 - pydantic's way to refuse
        if name in _WHOLE and isinstance(value, float) and not value.is_integer():
            raise ValueError(f"`{name}` is a whole number")
    return options


# Numbers in which nothing stands behind the point are whole ones, here as in JSON Schema.
_PROPERTIES: JsonDict = {
    name: {"type": ["integer" if name in _WHOLE else "number", "null"]} for name in sorted(_NUMBERS)
}
Options = Annotated[
    dict[str, Any] | None,
    AfterValidator(_check),
    Field(json_schema_extra={"properties": {**_PROPERTIES, "num_ctx": False}}),
]
