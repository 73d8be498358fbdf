"""Validates how long Ollama keeps a model loaded after an answer. Pure."""

import re
from typing import Any

KeepAlive = int | float | str
"""Seconds, or a duration as Go writes it."""

KEEP_ALIVE_RULE = "keep_alive must be seconds, or a duration like 30m"
KEEP_ALIVE_PATTERN = r"^-?(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$"
"""Durations; negative ones, and negative seconds, mean for ever."""

_duration = re.compile(KEEP_ALIVE_PATTERN, re.ASCII)


def require_keep_alive(value: Any) -> Any:
    """Return seconds or a duration as they are; None for the default.

    Raises:
        ValueError: It is something else.
    """
    is_seconds = isinstance(value, int | float) and not isinstance(value, bool)
    is_duration = isinstance(value, str) and _duration.fullmatch(value) is not None
    if value is None or is_seconds or is_duration:
        return value
    raise ValueError(KEEP_ALIVE_RULE)
