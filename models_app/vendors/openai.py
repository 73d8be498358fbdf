"""Describes OpenAI: its address, list of models, APIs and SDK, which other vendors use too."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from models_app.model_calls import current_caller
from models_app.vendors.vendor import ModelFactory, ModelFacts, Vendor

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers import Provider

    from models_app.language_model import ModelRequest

_OWN_MODELS = re.compile(r"(?:gpt|chatgpt|o\d|ft:|codex|davinci|babbage|computer-use)")
# What Responses does not have, or not better. New families are there, some of them only there
# (docs/decisions/0135).
_BY_CHAT = re.compile(
    r"(?:ft:)?(?:gpt-3|gpt-4|gpt-oss|gpt-audio|chatgpt|gpt-5-chat|davinci|babbage)"
)
# Models in the list that can't chat; it has no field that says so.
_NOT_FOR_CHAT = (
    "text-embedding", "whisper", "tts-", "dall-e", "omni-moderation", "gpt-image", "sora",
    "davinci", "babbage", "text-moderation",
)  # fmt: skip


class OpenAI(Vendor, frozen=True, kw_only=True):
    """OpenAI's Responses and Chat Completions APIs."""

    has_apis = True

    name: str = "openai"
    base_url: str = "https://api.openai.com/v1"
    key_variables: tuple[str, ...] = ("OPENAI_API_KEY",)

    def facts(self, item: Mapping[str, Any]) -> ModelFacts:
        """Return whether the model chats: the list has names alone."""
        name = str(item.get("id") or item.get("name"))
        return ModelFacts(()) if name.startswith(_NOT_FOR_CHAT) else ModelFacts()

    def uses_responses(self, model: str) -> bool:
        """Return whether to ask a model by Responses: those that reason may need it for tools."""
        # Behind a configured address there may be models of others, too.
        needs_it = bool(_OWN_MODELS.match(model)) and not _BY_CHAT.match(model)
        return needs_it if self.api == "auto" else super().uses_responses(model)

    def sampling_settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that OpenAI alone has."""
        return {**super().sampling_settings(options), **openai_settings(options)}

    def cache_settings(self, kept_for: str, request: "ModelRequest") -> dict[str, Any]:
        """Return the key by which requests of one session reach the same cache."""
        return session_cache()

    def open_models(self, key: str, http_client: "httpx2.AsyncClient") -> ModelFactory:
        """Import OpenAI's SDK and return a factory of its models."""
        from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

        client = open_sdk(self, key, http_client, with_account=True)
        provider = OpenAIProvider(openai_client=client)

        def make(name: str, by_responses: bool) -> "OpenAIChatModel | OpenAIResponsesModel":
            if by_responses:
                may_reason = "gpt-oss" in name or not _BY_CHAT.match(name)
                return responses_model(name, provider, may_reason=may_reason)
            return chat_model(name, provider, is_openais=bool(_OWN_MODELS.match(name)))

        return make


def session_cache() -> dict[str, Any]:
    """Return the setting by which requests of one session reach the same cache of OpenAI's."""
    caller = current_caller()
    return {"openai_prompt_cache_key": caller.session_id} if caller else {}


def openai_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the options that only OpenAI's models have."""
    return {
        f"openai_{setting}": options[name]
        for name, setting in (("verbosity", "text_verbosity"), ("service_tier", "service_tier"))
        if options.get(name) is not None
    }


def open_sdk(
    vendor: Vendor, key: str, http_client: "httpx2.AsyncClient", *, with_account: bool = False
) -> "AsyncOpenAI":
    """Import OpenAI's SDK and return its client for a vendor; retries are ours.

    Args:
        vendor: The server to connect to.
        key: The API key.
        http_client: The connections to use.
        with_account: Whether to send the organization and project that the SDK reads from the
            environment; other servers must not learn them.
    """
    from openai import AsyncOpenAI, Omit  # noqa: PLC0415 - a second of imports

    unnamed = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
    return AsyncOpenAI(
        api_key=key,
        base_url=vendor.base_url,
        http_client=http_client,
        max_retries=0,
        default_headers={} if with_account else cast("dict[str, str]", unnamed),
    )


def chat_model(
    name: str, provider: "Provider[AsyncOpenAI]", *, is_openais: bool
) -> "OpenAIChatModel":
    """Return pydantic-ai's model for a name; OpenAI's own models have other parameters."""
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 - a second of imports
    from pydantic_ai.profiles.openai import OpenAIModelProfile  # noqa: PLC0415

    # Without its reason for stopping, an answer may have broken off anywhere.
    overrides = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    if not is_openais:
        overrides["supports_thinking"] = True
        overrides["openai_chat_supports_max_completion_tokens"] = False
    return OpenAIChatModel(name, provider=provider, profile=overrides)


def responses_model(
    name: str, provider: "Provider[AsyncOpenAI]", *, may_reason: bool = True
) -> "OpenAIResponsesModel":
    """Return pydantic-ai's model of Responses for a name.

    Args:
        name: The model's name; may be one that only its server knows.
        provider: The server.
        may_reason: Whether a model that the library does not know may be asked to reason.
    """
    from pydantic_ai.models.openai import OpenAIResponsesModel  # noqa: PLC0415 - slow
    from pydantic_ai.profiles.openai import OpenAIModelProfile  # noqa: PLC0415

    known = OpenAIResponsesModel(name, provider=provider)
    if known.profile.get("openai_supports_reasoning") or not may_reason:
        return known
    overrides = OpenAIModelProfile(
        supports_thinking=True,
        openai_supports_reasoning=True,  # else no effort is sent
        openai_supports_reasoning_effort_none=True,  # else no temperature is sent, ever
        openai_supports_encrypted_reasoning_content=True,
        thinking_always_enabled=True,  # not every model that can reason knows "none"
    )
    return OpenAIResponsesModel(name, provider=provider, profile=overrides)
