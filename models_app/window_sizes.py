"""Computes sizes of context windows. Pure.

Steps are coarse, because Ollama reloads a model whenever ``num_ctx`` changes.
"""

import msgspec

SAFE_SHARE = 0.9
"""The share of a model's longest context that is used by default."""

_MARGIN = 4
"""Tokens before the end of its window at which Ollama may stop."""


class LoadedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The window that a server has loaded a model with.

    Attributes:
        window: Its tokens for one request; None if the model is not loaded.
        default: What the server gave the model when a request named no window; None if unknown.
    """

    window: int | None
    default: int | None = None


def safe_limit(max_context: int) -> int:
    """Return the largest window for a model whose longest context is ``max_context`` tokens."""
    return max(1, int(max_context * SAFE_SHARE))


def fit(needed: int, limit: int) -> int:
    """Return the smallest step that holds ``needed`` tokens: a power of two, or the limit."""
    step = 1 << max(0, needed - 1).bit_length()
    return min(step, limit)


def fills_window(prompt: int | None, answer: int | None, window: int | None) -> bool:
    """Return whether a prompt and its answer, in tokens, fill a context window."""
    if not prompt or not answer or not window:
        return False
    return prompt + answer >= window - _MARGIN
