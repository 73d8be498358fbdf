"""Opens pydantic-ai's models of a vendor and fits settings to them. Imported lazily."""

import warnings
from typing import Any, cast

import httpx2
from pydantic_ai.exceptions import UnsupportedSettingWarning
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from models_app.vendors.vendor import ModelFactory, Vendor

NO_KEY = "no-key"
"""Sent to servers that need none: the SDKs insist on a key."""

_SAMPLING = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty")


def open_models(vendor: Vendor, key: str | None, http_client: httpx2.AsyncClient) -> ModelFactory:
    """Import the vendor's SDK and return a factory of its models. Takes seconds: call in a thread.

    Args:
        vendor: The vendor whose models to open.
        key: Its key; None for a server that needs none.
        http_client: The connections to use; their owner closes them.
    """
    # A setting that a model does not have is left out; a warning for each request would be noise.
    warnings.filterwarnings("ignore", category=UnsupportedSettingWarning)
    # Google's SDK warns of each reason for an answer's end that is newer than it.
    warnings.filterwarnings("ignore", message=".* is not a valid FinishReason")
    return vendor.open_models(key or NO_KEY, http_client)


def fit(settings: dict[str, Any], model: Model) -> ModelSettings:
    """Return the settings without those that this model would refuse or warn about."""
    profile = cast("dict[str, Any]", model.profile)
    thinking = settings.get("thinking")
    if "anthropic_supports_adaptive_thinking" in profile:
        _fit_anthropic(settings, profile)
    if settings.get("openai_reasoning_effort"):
        thinking = True
    if profile.get("openai_supports_reasoning"):
        default = profile.get("thinking_enabled_by_default", False)
        thinks = default if thinking is None else thinking is not False
        can_stop = profile.get("openai_supports_reasoning_effort_none", False)
        if thinks or not can_stop:
            _drop(settings, *_SAMPLING)
    return cast("ModelSettings", settings)


def _fit_anthropic(settings: dict[str, Any], profile: dict[str, Any]) -> None:
    from pydantic_ai.profiles.anthropic import ANTHROPIC_THINKING_BUDGET_MAP  # noqa: PLC0415 - lazy

    if profile.get("anthropic_disallows_budget_thinking"):
        _drop(settings, "anthropic_thinking")
    if profile.get("anthropic_disallows_sampling_settings"):
        _drop(settings, "temperature", "top_p", "top_k")
    if thinking := settings.get("thinking"):
        _drop(settings, "temperature", "top_p", "top_k")  # refused while thinking is on
        explicit = settings.get("anthropic_thinking")
        adaptive = profile.get("anthropic_supports_adaptive_thinking") and explicit is None
        if "max_tokens" in settings and not adaptive:
            # Anthropic counts thinking into it, and people mean the answer.
            budget = explicit and explicit["budget_tokens"]
            settings["max_tokens"] += budget or ANTHROPIC_THINKING_BUDGET_MAP[thinking]


def _drop(settings: dict[str, Any], *names: str) -> None:
    for name in names:
        settings.pop(name, None)
