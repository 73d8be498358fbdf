"""Translates a request's options to pydantic-ai's model settings; the part all vendors share. Pure.

Options have Ollama's names or the common ones; those that a vendor does not have are left out.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models_app.language_model import ModelRequest, Think

DEFAULT_THINKING_BUDGET = 10_000
_COMMON = ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")
_EFFORTS = frozenset({"minimal", "low", "medium", "high", "xhigh", "max"})


def common_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that all vendors accept."""
    settings = options_named(_COMMON, options)
    if (max_tokens := _max_tokens(options)) is not None:
        settings["max_tokens"] = max_tokens
    if stop := _stop_sequences(options.get("stop")):
        settings["stop_sequences"] = stop
    return settings


def cached_prefix(kept_for: str, request: "ModelRequest") -> dict[str, Any]:
    """Return the setting that marks what Anthropic and its like are to keep in their caches."""
    # The prompt at the end of an agent's request is not in its next one, so no entry for the
    # messages would be read.
    messages = {"retention": kept_for, "messages": False}
    return {"cache": messages if request.purpose == "agent" else kept_for}


def prompt_cache(request: "ModelRequest") -> str | None:
    """Return for how long the beginning of a request is to be kept; None for not at all.

    Only what a conversation sends again pays: not summaries, and not an agent's plan, which is made
    without tools.
    """
    is_read_again = request.purpose == "chat" or (request.purpose == "agent" and request.tools)
    kept_for = request.options.get("cache")
    return kept_for if is_read_again and kept_for in ("5m", "1h") else None


def options_named(names: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of these names that are set."""
    return {name: options[name] for name in names if options.get(name) is not None}


def effective_think(request: "ModelRequest") -> "Think | str | None":
    """Return whether to think, and with which effort; None leaves it to the vendor.

    ``reasoning_effort`` is the effort if the request enables thinking without one, and enables
    thinking if the request does not set it.
    """
    effort = request.options.get("reasoning_effort")
    if effort in _EFFORTS and request.think in (True, None):
        return str(effort)
    if effort == "none" and request.think is None:
        return False
    return request.think


def thinking_budget(think: bool | str, options: Mapping[str, Any]) -> int | None:
    """Return the budget of thinking in tokens; None if it is off or has no budget."""
    budget = options.get("thinking_budget")
    return budget if think and isinstance(budget, int) and budget > 0 else None


def _max_tokens(options: Mapping[str, Any]) -> int | None:
    for name in ("max_tokens", "num_predict"):
        value = options.get(name)
        if isinstance(value, int) and value > 0:  # Ollama says "no limit" with -1 and -2
            return value
    return None


def _stop_sequences(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, Sequence):
        return [item for item in value if isinstance(item, str) and item]
    return []
