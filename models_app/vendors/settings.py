"""A request's options and thinking, in the words of pydantic-ai's model settings. Pure.

Options have Ollama's names or the common ones; what a vendor does not know is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from models_app.language_model import ModelRequest, Think
from models_app.vendors.registry import VendorKind

DEFAULT_THINKING_BUDGET = 10_000
_SAME = ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")
# Samplers that llama.cpp, vLLM and their like take beside OpenAI's own parameters.
_COMPATIBLE_ONLY = ("top_k", "min_p", "repeat_penalty")
_EFFORTS = frozenset({"minimal", "low", "medium", "high", "xhigh", "max"})


def settings_for(
    request: ModelRequest, kind: VendorKind, *, may_think: bool = True
) -> dict[str, Any]:
    """Return the model settings of a request.

    Args:
        request: The request.
        kind: The vendor's protocol.
        may_think: False where thinking would be refused whatever was asked (Anthropic, when the
            running tool round has no signed thinking of its own).
    """
    options = request.options
    settings: dict[str, Any] = {
        name: options[name] for name in _SAME if options.get(name) is not None
    }
    if (most := _max_tokens(options)) is not None:
        settings["max_tokens"] = most
    if stop := _stop(options.get("stop")):
        settings["stop_sequences"] = stop
    if kind in ("anthropic", "google", "openrouter") and options.get("top_k") is not None:
        settings["top_k"] = options["top_k"]
    if kind == "compatible":
        extra = {name: options[name] for name in _COMPATIBLE_ONLY if options.get(name) is not None}
        if extra:
            settings["extra_body"] = extra
    think = effective_think(request) if may_think else False
    settings.update(_thinking(think, options, kind))
    return settings


def effective_think(request: ModelRequest) -> Think | str | None:
    """Return whether and how hard to think: what was asked, in its strength where only options say.

    ``reasoning_effort`` sets the strength of a plain yes, and asks by itself where nothing was
    said.
    """
    effort = request.options.get("reasoning_effort")
    if effort in _EFFORTS and request.think in (True, None):
        return str(effort)
    if effort == "none" and request.think is None:
        return False
    return request.think


def _thinking(
    think: Think | str | None, options: Mapping[str, Any], kind: VendorKind
) -> dict[str, Any]:
    if think is None:
        return {}
    if kind == "compatible":
        # Servers disagree on how to say no, and some refuse the parameter altogether.
        return {"openai_reasoning_effort": _effort(think)} if think else {}
    budget = options.get("thinking_budget")
    if think and isinstance(budget, int) and budget > 0:
        match kind:
            case "anthropic":
                return {
                    "thinking": think,
                    "anthropic_thinking": {"type": "enabled", "budget_tokens": budget},
                }
            case "google":
                return {
                    "google_thinking_config": {"include_thoughts": True, "thinking_budget": budget}
                }
            case "openrouter":
                return {"openrouter_reasoning": {"enabled": True, "max_tokens": budget}}
    return {"thinking": think}


def _effort(think: Think | str) -> str:
    return "medium" if think is True else str(think)


def _max_tokens(options: Mapping[str, Any]) -> int | None:
    for name in ("max_tokens", "num_predict"):
        value = options.get(name)
        if isinstance(value, int) and value > 0:  # Ollama says "no limit" with -1 and -2
            return value
    return None


def _stop(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, Sequence):
        return [item for item in value if isinstance(item, str) and item]
    return []
