"""Classifies the words in which providers say why an answer ended. Pure."""

import re
from typing import Literal

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "error"]

UNSTATED = "unstated"
"""Stands for the word of a provider that ended its answer in order, but without one."""

_KINDS: tuple[tuple[FinishReason, str], ...] = (
    ("length", r"length|max\w*tokens|tokens?_limit|context_window|continuation|truncat"),
    (
        "content_filter",
        (
            r"filter|refus|safety|prohibit|block(list|ed)|recitation|spii|guardrail|moderat|"
            r"sensitive|model_armor"
        ),
    ),
    ("error", r"error|abort|cancel|malformed|insufficient|fail|overload"),
    ("tool_calls", r"tool|function_call"),
)


def finish_reason(word: str) -> FinishReason:
    """Return the kind of a provider's word; an answer that ends with an unknown one is complete."""
    plain = re.sub(r"[\W_]+", "_", word.lower())
    return next((kind for kind, words in _KINDS if re.search(words, plain)), "stop")
