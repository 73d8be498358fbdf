"""Checks the sampling options of sessions and requests."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic.config import JsonDict

from sessions_app.bounds import MOST_ITEMS
from sessions_app.keep_alive import KEEP_ALIVE_PATTERN, require_keep_alive
from sessions_app.suggestions import suggestion

_INTEGERS = frozenset(
    [
        *("seed", "top_k", "max_tokens", "num_predict", "num_keep", "repeat_last_n"),
        *("thinking_budget", "mirostat", "num_batch", "num_gpu", "main_gpu", "num_thread"),
    ]
)
_NUMBERS = _INTEGERS.union(
    ("temperature", "top_p", "min_p", "typical_p", "tfs_z", "repeat_penalty"),
    ("presence_penalty", "frequency_penalty", "mirostat_eta", "mirostat_tau"),
)
_OTHERS = frozenset(
    [
        *("stop", "reasoning_effort", "numa", "low_vram", "f16_kv", "use_mmap", "use_mlock"),
        *("penalize_newline", "keep_alive"),
    ]
)
_CHOICES = {
    "verbosity": ("low", "medium", "high"),
    "service_tier": ("auto", "default", "flex", "priority"),
}
OPTIONS = _NUMBERS.union(_OTHERS, _CHOICES)
"""The options of all providers, by Ollama's names or else the common ones (docs/providers.md)."""


def check_options(options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Reject options that would fail every answer or have no effect.

    Raises:
        ValueError: The message names one.
    """
    for name, value in (options or {}).items():
        if name == "num_ctx":
            raise ValueError("`num_ctx` is what the session's `context_window` sets")
        if name not in OPTIONS:
            raise ValueError(
                f"there is no option `{name[:100]}`{suggestion(name, sorted(OPTIONS))}"
            )
        if name in _CHOICES and value not in (None, *_CHOICES[name]):
            raise ValueError(f"`{name}` is one of {', '.join(_CHOICES[name])}")
        if name == "keep_alive":
            require_keep_alive(value)
        if name not in _NUMBERS or value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"`{name}` is a number")  # noqa: TRY004 - pydantic's way to refuse
        if name in _INTEGERS and isinstance(value, float) and not value.is_integer():
            raise ValueError(f"`{name}` is a whole number")
    return options


# As in JSON Schema, a float without a fractional part is an integer.
_PROPERTIES: JsonDict = {
    **{
        name: {"type": ["integer" if name in _INTEGERS else "number", "null"]}
        for name in sorted(_NUMBERS)
    },
    **{name: {} for name in sorted(_OTHERS)},
    **{name: {"enum": [*choices, None]} for name, choices in sorted(_CHOICES.items())},
    "keep_alive": {"type": ["number", "string", "null"], "pattern": KEEP_ALIVE_PATTERN},
}
Options = Annotated[
    Annotated[dict[str, Any], Field(max_length=MOST_ITEMS)] | None,
    AfterValidator(check_options),
    Field(json_schema_extra={"properties": _PROPERTIES, "additionalProperties": False}),
]
