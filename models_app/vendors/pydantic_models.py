"""The SDK of each vendor behind pydantic-ai's models. Imported lazily, as ``history`` is.

Each SDK is imported by the first ``open_models`` of its kind; retries of theirs are off.
"""

import re
import warnings
from collections.abc import Callable
from typing import Any, cast

import httpx2
from pydantic_ai.exceptions import UnsupportedSettingWarning
from pydantic_ai.models import Model
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.settings import ModelSettings

from models_app.errors import ModelNotFound
from models_app.vendors.registry import Vendor

ModelMaker = Callable[[str], Model]
"""From a model's bare name to what answers for it."""

NO_KEY = "no-key"
"""Sent to servers that need none: the SDKs insist on a key."""

_SAMPLING = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty")
_OPENAIS_NAMES = re.compile(r"(?:gpt|chatgpt|o\d|ft:|codex|davinci|babbage|computer-use)")


def open_models(vendor: Vendor, key: str | None, http_client: httpx2.AsyncClient) -> ModelMaker:
    """Import the vendor's SDK and return what makes its models. Takes seconds: call it in a thread.

    Args:
        vendor: Who to ask.
        key: Its key; None for a server that needs none.
        http_client: The connections to use; their owner closes them.
    """
    # A setting that a model does not have is left out; nobody reads a warning of it in a log.
    warnings.filterwarnings("ignore", category=UnsupportedSettingWarning)
    secret = key or NO_KEY
    match vendor.kind:
        case "anthropic":
            return _anthropic(vendor, secret, http_client)
        case "google":
            return _google(vendor, secret, http_client)
        case "openrouter":
            return _openrouter(vendor, secret, http_client)
        case "openai" | "compatible":
            return _openai(vendor, secret, http_client)


def fit(settings: dict[str, Any], model: Model) -> ModelSettings:
    """Return the settings without what this model would refuse or warn about."""
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
        _drop(settings, "temperature", "top_p", "top_k")  # refused while the model thinks
        explicit = settings.get("anthropic_thinking")
        adaptive = profile.get("anthropic_supports_adaptive_thinking") and explicit is None
        if "max_tokens" in settings and not adaptive:
            # Anthropic counts thinking into it, and people mean the answer.
            budget = explicit and explicit["budget_tokens"]
            settings["max_tokens"] += budget or ANTHROPIC_THINKING_BUDGET_MAP[thinking]


def _drop(settings: dict[str, Any], *names: str) -> None:
    for name in names:
        settings.pop(name, None)


def _anthropic(vendor: Vendor, key: str, http_client: httpx2.AsyncClient) -> ModelMaker:
    from anthropic import AsyncAnthropic  # noqa: PLC0415 - a second of imports
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

    client = AsyncAnthropic(
        api_key=key, base_url=vendor.base_url, http_client=http_client, max_retries=0
    )
    provider = AnthropicProvider(anthropic_client=client)
    return lambda name: AnthropicModel(name, provider=provider)


def _google(vendor: Vendor, key: str, http_client: httpx2.AsyncClient) -> ModelMaker:
    from google.genai.types import HttpRetryOptions  # noqa: PLC0415 - a second of imports
    from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415
    from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415

    provider = GoogleProvider(
        api_key=key,
        base_url=vendor.base_url,
        http_client=http_client,
        retry_options=HttpRetryOptions(attempts=1),
    )
    return lambda name: GoogleModel(name, provider=provider)


def _openai(vendor: Vendor, key: str, http_client: httpx2.AsyncClient) -> ModelMaker:
    from openai import AsyncOpenAI, Omit  # noqa: PLC0415 - a second of imports
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415
    from pydantic_ai.providers.openai_compatible import (  # noqa: PLC0415
        OpenAICompatibleProvider,
    )

    # The SDK takes the account's names from the environment; other servers must not learn them.
    unnamed = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
    client = AsyncOpenAI(
        api_key=key,
        base_url=vendor.base_url,
        http_client=http_client,
        max_retries=0,
        default_headers={} if vendor.kind == "openai" else cast("dict[str, str]", unnamed),
    )
    provider: OpenAIProvider | OpenAICompatibleProvider
    if vendor.kind == "openai":
        provider = OpenAIProvider(openai_client=client)
    else:
        provider = OpenAICompatibleProvider(vendor.name, openai_client=client)

    def make(name: str) -> Model:
        model = OpenAIChatModel(name, provider=provider)
        theirs = vendor.kind == "openai" and _OPENAIS_NAMES.match(name) is not None
        # Without its reason for stopping, an answer may have broken off anywhere.
        ours = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
        if not theirs:
            ours["supports_thinking"] = True
            ours["openai_chat_supports_max_completion_tokens"] = False
        return OpenAIChatModel(name, provider=provider, profile=merge_profile(model.profile, ours))

    return make


def _openrouter(vendor: Vendor, key: str, http_client: httpx2.AsyncClient) -> ModelMaker:
    from openai import AsyncOpenAI, Omit  # noqa: PLC0415 - a second of imports
    from pydantic_ai.models.openrouter import OpenRouterModel  # noqa: PLC0415
    from pydantic_ai.providers.openrouter import OpenRouterProvider  # noqa: PLC0415

    unnamed = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
    client = AsyncOpenAI(
        api_key=key,
        base_url=vendor.base_url,
        http_client=http_client,
        max_retries=0,
        default_headers=cast("dict[str, str]", unnamed),
    )
    provider = OpenRouterProvider(openai_client=client)

    def make(name: str) -> Model:
        if "/" not in name:
            raise ModelNotFound(
                f"OpenRouter's models are named '<vendor>/<model>', and '{name}' is not.",
                provider=vendor.name,
                model=name,
            )
        model = OpenRouterModel(name, provider=provider)
        ours = OpenAIModelProfile(
            openai_chat_streaming_requires_finish_reason=True,
            supports_thinking=True,
            supports_json_schema_output=True,  # who does not is asked in words
        )
        return OpenRouterModel(name, provider=provider, profile=merge_profile(model.profile, ours))

    return make
